"""The objects of a scenario, as the API has them: DeviceClass, claims, taint rule and pods. Pure."""

from actors.fleet.workload.scenario import RequestSpec, Scenario
from protocols.kinds.table import (
    DEVICECLASSES,
    DEVICETAINTRULES,
    NAMESPACES,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
)
from protocols.kube.meta import Object
from protocols.messages.fleet import FLEET

CLAIM = "device"
"""Name of a pod's claim in the pod, and of the template."""


class ScenarioObjects:
    """Makes the objects of one run: `space` is its namespace and the beginning of names without a namespace."""

    def __init__(self, scenario: Scenario, fleet: str, space: str) -> None:
        self._scenario = scenario
        self._fleet = fleet
        self.cluster_name = f"{space}.{scenario.driver}"
        """Name of the DeviceClass and the DeviceTaintRule."""
        self._space = space

    def namespace(self) -> Object:
        return {**NAMESPACES.type_meta, "metadata": self._metadata(self._space)}

    def device_class(self) -> Object:
        """Return the class of the driver's devices; it stands for the scenario's resource if that has one."""
        spec: Object = {"selectors": [{"cel": {"expression": f"device.driver == {self._scenario.driver!r}"}}]}
        if self._scenario.resource:
            spec["extendedResourceName"] = self._scenario.resource
        return {**DEVICECLASSES.type_meta, "metadata": self._metadata(self.cluster_name), "spec": spec}

    def taint_rule(self) -> Object:
        spec = {"deviceSelector": {"driver": self._scenario.driver}, "taint": self._scenario.taint}
        return {**DEVICETAINTRULES.type_meta, "metadata": self._metadata(self.cluster_name), "spec": spec}

    def claim_template(self) -> Object:
        spec = {"spec": {"devices": self._devices()}}
        return {**RESOURCECLAIMTEMPLATES.type_meta, "metadata": {"name": CLAIM}, "spec": spec}

    def claim(self, name: str) -> Object:
        """Return a claim that pods share by its name."""
        return {**RESOURCECLAIMS.type_meta, "metadata": {"name": name}, "spec": {"devices": self._devices()}}

    def _metadata(self, name: str) -> Object:
        """Return the metadata of an object without a namespace, by whose label `fleet delete` finds it."""
        return {"name": name, "labels": {FLEET: self._fleet}}

    def _devices(self) -> Object:
        """Return `spec.devices` of a claim, with this run's class where a request names none."""
        devices = self._scenario.devices
        requests = [self._request(request) for request in devices.requests]
        return {"requests": requests} | ({"constraints": list(devices.constraints)} if devices.constraints else {})

    def _request(self, request: RequestSpec) -> Object:
        named: Object = {"name": request.name}
        if request.exactly is not None:
            named["exactly"] = self._classed(request.exactly)
        if request.first_available:
            named["firstAvailable"] = [self._classed(alternative) for alternative in request.first_available]
        return named

    def _classed(self, request: Object) -> Object:
        return {"deviceClassName": self.cluster_name, **request}

    def pod(self, name: str, annotations: dict[str, str], claim: str = "") -> Object:
        """Return a pod of the fleet; `claim`: the one that it shares, if it has none of its own."""
        container: Object = {"name": "main", "image": "hollow/pod"}
        spec: Object = {
            "nodeSelector": {FLEET: self._fleet},
            "containers": [container],
            "restartPolicy": "Never",
        }
        if self._scenario.resource:
            container["resources"] = {"limits": {self._scenario.resource: "1"}}
        elif self._scenario.driver:
            source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": CLAIM}
            spec["resourceClaims"] = [{"name": CLAIM, **source}]
            container["resources"] = {"claims": [{"name": CLAIM}]}
        return {**PODS.type_meta, "metadata": {"name": name, "annotations": annotations}, "spec": spec}

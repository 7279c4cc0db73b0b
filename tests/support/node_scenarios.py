"""What pods go through on a node: each scenario runs on a real node and on a simulated one, in a namespace for each."""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.support.plane import Plane, condition, until
from tests.support.plane_client import ask

PLUGIN, DRIVER, CLASS = "example.com/gpu", "gpu.example.com", "both"
MOST, WHOLE, BEYOND = "most", "whole", "beyond"
SHARES = {MOST: 700, WHOLE: 1000, BEYOND: 1001}
"""Amounts of processors in a spec, in thousandths of those of the node."""
Object = dict[str, Any]


class Place(NamedTuple):
    """A node and the namespace of the pods that are made for it."""

    plane: Plane
    node: str
    namespace: str
    processors: int
    set_health: Callable[[str, str, str], None]
    """Let a plugin or driver report a health of the device with a name."""

    def create(self, name: str, spec: Object, **metadata: Any) -> None:
        """Create a pod with this spec; by default it is bound to the node and has a container of a hollow image."""
        here = {"nodeSelector": {"kubernetes.io/hostname": self.node}}
        place = here if spec.get("nodeSelector") == HERE else {"nodeName": self.node}
        body = {"containers": [container()], **spec, **place}
        self.post("api/v1", "pods", {"metadata": {"name": name, **metadata}, "spec": body})

    def post(self, group: str, resource: str, obj: Object) -> None:
        self._done("POST", f"/{group}/namespaces/{self.namespace}/{resource}", obj)

    def put(self, name: str, change: Callable[[Object], None], subresource: str = "") -> None:
        """Change a pod, again if somebody else did meanwhile."""
        path, status, answer = self._path(name), 409, b""
        while status == 409:
            obj = json.loads(self._done("GET", path))
            change(obj)
            status, answer = self._ask("PUT", f"{path}{subresource}", obj)
        assert status == 200, answer

    def delete(self, name: str, grace: int = 30) -> None:
        self._done("DELETE", self._path(name), {"gracePeriodSeconds": grace})

    def has_event(self, pod: str, reason: str) -> bool:
        events = self.plane.list("event", self.namespace)
        return any(event["reason"] == reason and event["involvedObject"]["name"] == pod for event in events)

    def _path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"

    def _done(self, method: str, path: str, body: Object | None = None) -> bytes:
        status, answer = self._ask(method, path, body)
        assert status in (200, 201), f"{method} {path}: {status} {answer!r}"
        return answer

    def _ask(self, method: str, path: str, body: Object | None) -> tuple[int, bytes]:
        text = json.dumps(body) if body is not None else ""
        for word, share in SHARES.items():
            text = text.replace(f'"{word}"', f'"{share * self.processors}m"')
        return ask(self.plane.root, method, path, text)


Until = Callable[[Object], bool]
Act = Callable[[Place, Object], None]
HERE = {"kubernetes.io/hostname": ""}
"""Node selector of pods that the scheduler binds."""
NONE: Mapping[str, Any] = MappingProxyType({})


class Step(NamedTuple):
    holds: Until
    """Holds for the pod before `act`."""
    act: Act
    """Called with the pod."""


class Scenario(NamedTuple):
    name: str
    spec: Object
    holds: Until
    """Holds for the pod in the end, after the steps."""
    annotations: Mapping[str, str] = NONE
    steps: tuple[Step, ...] = ()
    others: Mapping[str, Until] = NONE
    """Pods that steps create, and what holds for them in the end."""
    gone: bool = False
    """The pod is gone in the end."""


def name_of(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def container(name: str = "main", **fields: Any) -> Object:
    return {"name": name, "image": "hollow/x", **fields}


def limits(**amounts: str) -> Object:
    return {"resources": {"limits": {**amounts}}}


def statuses(pod: Object) -> list[Object]:
    """Return the statuses of all containers."""
    shown = pod.get("status", {})
    kinds = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
    return [each for kind in kinds for each in shown.get(kind, ())]


def devices(pod: Object) -> list[Object]:
    """Return the devices that the pod shows, with their health."""
    shown = [entry for status in statuses(pod) for entry in status.get("allocatedResourcesStatus", ())]
    return [device for entry in shown for device in entry["resources"]]


def healths(health: str) -> Until:
    return lambda pod: ready(pod) and [device["health"] for device in devices(pod)] == [health]


def phase(*words: str) -> Until:
    return lambda pod: pod.get("status", {}).get("phase") in words


ended, failed = phase("Succeeded", "Failed"), phase("Failed")


def ready(pod: Object) -> bool:
    return condition(pod, "Ready") == "True"


def not_ready(pod: Object) -> bool:
    return phase("Running")(pod) and condition(pod, "Ready") == "False"


def restarted(times: int = 1) -> Until:
    return lambda pod: any(status["restartCount"] == times for status in statuses(pod))


def waits(reason: str, times: int = 0) -> Until:
    def holds(pod: Object) -> bool:
        found = [status for status in statuses(pod) if status["state"].get("waiting", {}).get("reason") == reason]
        return any(each["restartCount"] == times for each in found)

    return holds


def resized(reason: str = "") -> Until:
    """The resize is pending for that reason, or none is pending and the container has what it should."""

    def holds(pod: Object) -> bool:
        pending = [each for each in pod["status"].get("conditions", ()) if each["type"].startswith("PodResize")]
        if reason:
            return any(each.get("reason") == reason for each in pending)
        wanted = [each.get("resources") for each in pod["spec"]["containers"]]
        return (
            pod["metadata"]["generation"] > 1
            and not pending
            and wanted == [status.get("resources") for status in statuses(pod)]
        )

    return holds


def exits(code: int = 0, duration: str = "300ms") -> dict[str, str]:
    """Return annotations: all containers end after a time."""
    return {"nodeplane.dev/hollow-duration": duration, "nodeplane.dev/hollow-exit-code": str(code)}


OOM = {"nodeplane.dev/hollow-duration": "300ms", "nodeplane.dev/hollow-oom": "true"}


def exec_probe(**fields: Any) -> Object:
    return {"exec": {"command": ["true"]}, "periodSeconds": 1, **fields}


def probe_fails(kind: str, holds: Until) -> Scenario:
    """A pod whose probes fail: on a real node nobody listens, on a simulated one an annotation says so."""
    probe = {"tcpSocket": {"port": 1}, "periodSeconds": 1, "failureThreshold": 1}
    return Scenario(f"{kind}-fails", one(**{f"{kind}Probe": probe}), holds, {f"nodeplane.dev/hollow-{kind}": "fail"})


def ends(name: str, code: int, policy: str, until: Until) -> Scenario:
    return Scenario(f"{name}-{policy.lower()}", {"restartPolicy": policy}, until, exits(code))


def rule(name: str, action: str, until: Until) -> Scenario:
    """A container that ends as a rule of its restart policy says."""
    rules = [{"action": action, "exitCodes": {"operator": "In", "values": [42]}}]
    spec = {"restartPolicy": "Never", "containers": [container(restartPolicy="Never", restartPolicyRules=rules)]}
    return Scenario(name, spec, until, exits(42, "2s"))


def resize(name: str, cpu: str, until: Until, **fields: Any) -> Scenario:
    """A pod with 10 thousandths of a processor that gets another amount."""

    def change(pod: Object) -> None:
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}

    step = Step(ready, lambda place, pod: place.put(name_of(pod), change, "/resize"))
    return Scenario(name, {"containers": [container(**limits(cpu="10m"), **fields)]}, until, steps=(step,))


def deletes(name: str, spec: Object, grace: int = 30) -> Scenario:
    step = Step(ready, lambda place, pod: place.delete(name_of(pod), grace))
    return Scenario(name, spec, bool, steps=(step,), gone=True)


def second(name: str, first: Object, until: Until, then: Object, then_until: Until) -> Scenario:
    """A pod, and one that is created when it runs."""
    step = Step(ready, lambda place, pod: place.create(f"{name}-2", then))
    return Scenario(name, first, until, steps=(step,), others={f"{name}-2": then_until})


def breaks(name: str, spec: Object, source: str) -> Scenario:
    """A pod whose device is Unhealthy for a while. `source`: the plugin or driver of it."""

    def breaks(place: Place, pod: Object) -> None:
        place.set_health(source, _device(pod), "Unhealthy")

    def mends(place: Place, pod: Object) -> None:
        until("an event", lambda: place.has_event(name_of(pod), "DeviceUnhealthy"))  # of a shorter time there is none
        place.set_health(source, _device(pod), "Healthy")

    steps = Step(healths("Healthy"), breaks), Step(healths("Unhealthy"), mends)
    return Scenario(name, spec, healths("Healthy"), steps=steps)


def _device(pod: Object) -> str:
    return str(devices(pod)[0]["resourceID"]).rpartition("/")[2]


def changes(name: str, change: Callable[[Object], None], until: Until, subresource: str = "") -> Scenario:
    step = Step(ready, lambda place, pod: place.put(name_of(pod), change, subresource))
    return Scenario(name, {}, until, steps=(step,))


def _debug(pod: Object) -> None:
    pod["spec"]["ephemeralContainers"] = [container("debug", targetContainerName="main")]


def _new_image(pod: Object) -> None:
    pod["spec"]["containers"][0]["image"] = "hollow/y"


def _all_run(pod: Object) -> bool:
    return len(statuses(pod)) == 2 and all("running" in status["state"] for status in statuses(pod))


def _init_runs(pod: Object) -> bool:
    return any("running" in status["state"] for status in pod.get("status", {}).get("initContainerStatuses", ()))


def one(**fields: Any) -> Object:
    """Return a spec with one container."""
    return {"containers": [container(**fields)]}


def claiming(**source: str) -> Object:
    """Return a spec with a claim."""
    uses = one(resources={"claims": [{"name": "gpu"}]})
    return {**uses, "nodeSelector": HERE, "resourceClaims": [{"name": "gpu", **source}]}


ONE, TWO = limits(**{PLUGIN: "1"}), limits(**{PLUGIN: "2"})
TEMPLATE, SHARED = claiming(resourceClaimTemplateName=CLASS), claiming(resourceClaimName=CLASS)
PORT = one(ports=[{"containerPort": 80, "hostPort": 8080}])
HOLDS_MOST = one(**limits(cpu=MOST))
SIDECAR = {"initContainers": [container("sidecar", restartPolicy="Always")]}
INITS = {"initContainers": [container("i1"), container("i2")], "restartPolicy": "Never"}
CREATING, CRASHES = waits("ContainerCreating"), waits("CrashLoopBackOff", 1)
RESTARTS = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
MISSING = [{"configMapRef": {"name": "missing"}}]
VOLUME = [{"name": "v", "configMap": {"name": "missing"}}]

SCENARIOS = (
    Scenario("plain", {}, ready),
    Scenario("scheduled", {"nodeSelector": HERE}, ready),
    Scenario("two-containers", {"containers": [container("a"), container("b")]}, ready),
    Scenario("host-network", {"hostNetwork": True}, ready),
    Scenario("sidecar", SIDECAR, ready),
    Scenario("init", INITS, ended, exits()),
    Scenario("init-fails", INITS, failed, exits(2)),
    Scenario("init-crashes", {**INITS, "restartPolicy": "Always"}, CRASHES, exits(2)),
    ends("exit-0", 0, "Never", ended),
    ends("exit-0", 0, "OnFailure", ended),
    ends("exit-0", 0, "Always", CRASHES),
    ends("exit-3", 3, "Never", failed),
    ends("exit-3", 3, "OnFailure", CRASHES),
    ends("exit-3", 3, "Always", CRASHES),
    Scenario("oom-never", {"restartPolicy": "Never"}, failed, OOM),
    Scenario("oom-always", {}, CRASHES, OOM),
    Scenario("readiness", one(readinessProbe=exec_probe(successThreshold=2)), ready),
    Scenario("readiness-late", one(readinessProbe=exec_probe(initialDelaySeconds=600)), not_ready),
    Scenario("probes", one(**{f"{kind}Probe": exec_probe() for kind in ("readiness", "liveness", "startup")}), ready),
    probe_fails("readiness", not_ready),
    probe_fails("liveness", CRASHES),
    probe_fails("startup", CRASHES),
    Scenario("deadline", {"activeDeadlineSeconds": 1}, failed),
    Scenario("devices", one(**ONE), ready),
    Scenario("devices-reused", {**INITS, "initContainers": [container("i1", **TWO)], **one(**ONE)}, ended, exits()),
    Scenario("devices-too-many", one(**limits(**{PLUGIN: "5"})), failed),
    breaks("device-breaks", one(**ONE), PLUGIN),
    Scenario("resource-unknown", one(**limits(**{"example.com/none": "1"})), ready),
    Scenario("processors-too-many", one(**limits(cpu=BEYOND)), failed),
    Scenario("another-node", {"nodeSelector": {"no": "such"}}, failed),
    Scenario("sysctl", {"securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}}, failed),
    Scenario("claim-template", TEMPLATE, ready),
    Scenario("claim-shared", SHARED, ready),
    Scenario("claim-shared-too", SHARED, ready),
    Scenario("claim-missing", {"resourceClaims": [{"name": "gpu", "resourceClaimName": "no"}]}, CREATING),
    breaks("claim-breaks", TEMPLATE, DRIVER),
    resize("resize", "20m", resized()),
    resize("resize-restarts", "20m", lambda pod: restarted()(pod) and resized()(pod), resizePolicy=RESTARTS),
    resize("resize-infeasible", BEYOND, resized("Infeasible")),
    resize("resize-deferred", WHOLE, resized("Deferred")),
    second("host-port", PORT, ready, PORT, failed),
    second("preempted", HOLDS_MOST, failed, {**HOLDS_MOST, "priorityClassName": "system-node-critical"}, ready),
    rule("rule-restart", "Restart", CRASHES),
    rule("rule-restart-all", "RestartAllContainers", restarted()),
    deletes("deleted", {}),
    deletes("deleted-sidecar", SIDECAR),
    deletes("deleted-at-once", {}, 0),
    changes("debugged", _debug, _all_run, "/ephemeralcontainers"),
    changes("new-image", _new_image, lambda pod: restarted()(pod) and ready(pod)),
)

DIFFERENT = (
    (Scenario("variables", one(envFrom=MISSING), waits("CreateContainerConfigError")), ready),
    (Scenario("volume", {**one(volumeMounts=[{"name": "v", "mountPath": "/v"}]), "volumes": VOLUME}, CREATING), ready),
    (Scenario("init-without-end", {"initContainers": [container("i1")]}, _init_runs), ready),
    (Scenario("http-probe", one(readinessProbe={"httpGet": {"port": 1}}), not_ready), ready),
)
"""Scenarios with what a simulated node shows instead: it reads no ConfigMap and no Secret and makes no volume; a plain
init container without a script ends at once; for a probe no request is sent, its outcome is that of an annotation."""

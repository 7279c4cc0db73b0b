"""The API of the plane as a script needs it: the slices of drivers, and claims allocated to their devices."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from supervisor.conform.async_api import AsyncApi, Object
from supervisor.conform.verdict import Failed
from supervisor.testing.api import Api, ApiError

NAMESPACE, VERSION = "default", "resource.k8s.io/v1"
DRA = f"/apis/{VERSION}"
CLAIMS, SLICES = f"{DRA}/namespaces/{NAMESPACE}/resourceclaims", f"{DRA}/resourceslices"
NAMESPACES = "/api/v1/namespaces"
REQUEST, NO_CLASS, GATE = "device", "none.example", "nodeplane.dev/conform"
Reference = dict[str, str]
"""A pod as status.reservedFor of a claim names it."""


class DriverClaim(NamedTuple):
    """A claim as calls to drivers name it."""

    namespace: str
    uid: str
    name: str


class Offered(NamedTuple):
    """A device that a driver has published."""

    driver: str
    pool: str
    device: Object

    @property
    def name(self) -> str:
        return str(self.device["name"])

    def result(self, request: str = REQUEST) -> Object:
        """Return what the scheduler writes into a claim."""
        allocation: Object = {"request": request, "driver": self.driver, "pool": self.pool, "device": self.name}
        for field in ("bindingConditions", "bindingFailureConditions"):
            if self.device.get(field):
                allocation[field] = self.device[field]
        if self.device.get("allowMultipleAllocations"):
            allocation["shareID"] = str(uuid4())
            allocation["consumedCapacity"] = {
                name: (capacity.get("requestPolicy") or {}).get("default", capacity["value"])
                for name, capacity in (self.device.get("capacity") or {}).items()
            }
        return allocation


class DraObjects(AsyncApi):
    """Claims and pods of one namespace."""

    def __init__(self, api: Api, node: str, namespace: str = NAMESPACE) -> None:
        super().__init__(api)
        self.node, self.namespace = node, namespace
        self._claims, self._pod_path = f"{DRA}/namespaces/{namespace}/resourceclaims", f"{NAMESPACES}/{namespace}/pods"
        self._pods: list[Reference] = []

    async def of_namespace(self, name: str) -> "DraObjects":
        """Create a namespace; `delete_namespace` ends it."""
        body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self.ask("POST", NAMESPACES, body)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        try:
            await self.ask("POST", f"{NAMESPACES}/{name}/serviceaccounts", account)
        except ApiError as error:
            if error.code != 409:  # that of a controller
                raise
        objects = DraObjects(self._api, self.node, name)
        objects._turn = self._turn
        return objects

    async def delete_namespace(self) -> None:
        await self.delete_pods()
        await self.delete(f"{NAMESPACES}/{self.namespace}")

    async def slices(self, driver: str) -> list[Object]:
        """Return all slices of a driver, of this node and of others."""
        return list((await self.ask("GET", SLICES, fieldSelector=f"spec.driver={driver}"))["items"])

    async def create_pod(self) -> Reference:
        """Create a pod that no scheduler takes, so that claims can be reserved for it."""
        container = {"name": "none", "image": "none.example/none"}
        spec = {"schedulingGates": [{"name": GATE}], "containers": [container]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"conform-{uuid4().hex[:10]}"}, "spec": spec}
        metadata = (await self.ask("POST", self._pod_path, body))["metadata"]
        self._pods.append({"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]})
        return self._pods[-1]

    async def _pod(self) -> Reference:
        """Return the pod for which claims are reserved."""
        return self._pods[0] if self._pods else await self.create_pod()

    async def delete_pods(self) -> None:
        while self._pods:
            await self.delete(f"{self._pod_path}/{self._pods.pop()['name']}")

    async def create_claim(
        self,
        results: Sequence[Mapping[str, Any]],
        config: Sequence[Mapping[str, Any]] = (),
        reserved: Sequence[Reference] | None = None,
    ) -> DriverClaim:
        """Create a claim with this allocation, as a user and the scheduler do; without results it has none.

        It is reserved for a pod, as each claim that a kubelet prepares, unless `reserved` names others.
        """
        if reserved is None and results:
            reserved = [await self._pod()]
        name = f"claim-{uuid4().hex[:10]}"
        body = {
            "apiVersion": VERSION,
            "kind": "ResourceClaim",
            "metadata": {"name": name},
            "spec": {"devices": {"requests": _requests(results)}},
        }
        created = await self.ask("POST", self._claims, body)
        if results:
            status = {"allocation": self._allocation(results, config), "reservedFor": list(reserved or ())}
            await self._set_status(created, status)
        return DriverClaim(self.namespace, created["metadata"]["uid"], name)

    def _allocation(self, results: Sequence[Mapping[str, Any]], config: Sequence[Mapping[str, Any]]) -> Object:
        field = {"key": "metadata.name", "operator": "In", "values": [self.node]}
        selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        return {"devices": {"results": list(results), "config": list(config)}, "nodeSelector": selector}

    async def read(self, name: str) -> Object:
        return await self.ask("GET", f"{self._claims}/{name}")

    async def delete_claim(self, name: str) -> None:
        """Delete the claim; its allocation is removed before, whose finalizer would retain it."""
        path = f"{self._claims}/{name}"
        try:
            claim = await self.ask("GET", path)
            await self._set_status(claim, {})
        except ApiError as error:
            if error.code not in (404, 409):
                raise Failed(f"the API keeps claim {name}: {error}") from None
        await self.delete(path)

    async def reserve(self, name: str, pods: Sequence[Reference]) -> None:
        """Reserve an allocated claim for these pods and no others."""
        claim = await self.read(name)
        await self._set_status(claim, {**claim["status"], "reservedFor": list(pods)})

    async def pass_on(self, name: str) -> None:
        """Reserve an allocated claim for another pod than now, as when one ends and the next one comes.

        kubelet prepares a claim that it has unprepared for another pod only, and so never in the same resourceVersion
        unless both had it reserved; a driver's error is then repeated until the claim has changed.
        """
        claim = await self.read(name)
        others = [pod for pod in self._pods if pod not in (claim["status"].get("reservedFor") or ())]
        await self._set_status(claim, {**claim["status"], "reservedFor": others[:1] or [await self.create_pod()]})

    async def deallocate(self, name: str) -> None:
        """Remove the allocation, as the claim controller does once the last pod is gone."""
        claim = await self.read(name)
        await self._set_status(claim, {})

    async def allocate(self, name: str, results: Sequence[Mapping[str, Any]]) -> None:
        """Allocate a claim that has no allocation, and reserve it for a pod."""
        claim = await self.read(name)
        status = {"allocation": self._allocation(results, ()), "reservedFor": [await self._pod()]}
        await self._set_status(claim, status)

    async def _set_status(self, claim: Object, status: Object) -> None:
        """Write whatever else changed it meanwhile: controllers of the plane write claims, too."""
        metadata = {key: value for key, value in claim["metadata"].items() if key != "resourceVersion"}
        path = f"{self._claims}/{metadata['name']}/status"
        await self.ask("PUT", path, {**claim, "metadata": metadata, "status": status})


def _requests(results: Sequence[Mapping[str, Any]]) -> list[Object]:
    """Return the requests that these results answer: `device/first` is a subrequest of `device`."""
    counts = Counter((str(result["request"]), str(result["driver"])) for result in results) or {(REQUEST, NO_CLASS): 1}
    requests = []
    for (name, driver), count in counts.items():
        base, _, sub = name.partition("/")
        wanted: Object = {"deviceClassName": driver, "allocationMode": "ExactCount", "count": count}
        part = {"firstAvailable": [{"name": sub, **wanted}]} if sub else {"exactly": wanted}
        requests.append({"name": base, **part})
    return requests

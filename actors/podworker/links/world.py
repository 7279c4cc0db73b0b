"""The world as it is: pleg and devices on the bus, pods and events at the API."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from actors.podworker.types import APP, EPHEMERAL, ContainerSpec, Object, PodSpec
from protocols.bus import Bus, Replica
from protocols.bus.replica import OnChange
from protocols.errors import NodeplaneError
from protocols.kube.client import ApiClient
from protocols.kube.events import EventRecorder
from protocols.kube.resources import CONFIGMAPS, PODS, RESOURCECLAIMS, RUNTIMECLASSES, SECRETS, SERVICEACCOUNTS
from protocols.messages import devices as device_messages
from protocols.messages import pleg as pleg_messages
from protocols.messages.devices import AdmitPod, AdmittedPod, PrepareClaims
from protocols.messages.pleg import PodStatus

V = TypeVar("V")
NEWER_S = 10.0
ADMIT_S = 35.0
RELEASE_S = 10.0
PREPARE_S = 100.0
"""A driver has 45 s, and may be busy with another pod of the same claim before."""
PARALLEL_QUESTIONS = 64
PARALLEL_READS = 16
READ_S = 5.0
KIND = {"apiVersion": "v1", "kind": "Pod"}
OBJECTS = {
    "ConfigMap": CONFIGMAPS,
    "Secret": SECRETS,
    "ResourceClaim": RESOURCECLAIMS,
    "RuntimeClass": RUNTIMECLASSES,
}
TOKEN_REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}


class BusPleg:
    """ports.Pleg."""

    def __init__(self, bus: Bus, replica: Replica[PodStatus]) -> None:
        self._bus = bus
        self._replica = replica
        self._slots = asyncio.Semaphore(PARALLEL_QUESTIONS)

    def known(self, uid: str) -> PodStatus | None:
        return self._replica.items.get(uid)

    async def newer_than(self, uid: str, min_ns: int) -> PodStatus:
        question = pleg_messages.GetNewerThan(uid=uid, min_ns=min_ns)
        async with self._slots:
            return await self._bus.call(
                pleg_messages.OWNER,
                pleg_messages.GET_NEWER_THAN,
                question,
                PodStatus,
                timeout=NEWER_S,
                idempotent=True,
            )


class BusDevices:
    """ports.Devices."""

    def __init__(self, bus: Bus, shared: Callable[[], str], admitted: Callable[[], None]) -> None:
        self._bus = bus
        self.shared = shared
        self._admitted = admitted

    async def admit(self, request: AdmitPod) -> AdmittedPod:
        reply: AdmittedPod = await self._call(device_messages.ADMIT, request, AdmittedPod, ADMIT_S)
        self._admitted()  # of a pod that runs already, what it is kept to is known only now
        return reply

    async def release(self, uid: str) -> None:
        await self._call(device_messages.RELEASE, device_messages.ReleasePod(uid), device_messages.Empty, RELEASE_S)

    async def pre_start(self, uid: str, container: str, resources: tuple[str, ...]) -> None:
        request = device_messages.PreStart(uid, container, resources)
        await self._call(device_messages.PRE_START, request, device_messages.Empty, ADMIT_S)

    async def prepare(self, request: PrepareClaims) -> dict[str, tuple[str, ...]]:
        reply = await self._call(device_messages.PREPARE_CLAIMS, request, device_messages.PreparedClaims, PREPARE_S)
        names: dict[str, tuple[str, ...]] = reply.cdi_devices
        return names

    async def unprepare(self, uid: str) -> None:
        request = device_messages.UnprepareClaims(uid)
        await self._call(device_messages.UNPREPARE_CLAIMS, request, device_messages.Empty, PREPARE_S)

    async def reconcile(self, active: tuple[str, ...]) -> None:
        request = device_messages.ReconcilePods(active)
        await self._call(device_messages.RECONCILE, request, device_messages.Empty, RELEASE_S)

    async def _call(self, method: str, request: Any, reply: type[Any], timeout: float) -> Any:
        return await self._bus.call(device_messages.OWNER, method, request, reply, timeout=timeout, idempotent=True)


class ApiPods:
    """ports.Pods and statuses.PodApi."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self.mirror: Callable[[PodSpec], Object | None] = lambda spec: None
        """The object that stands for a static pod; None for the pods that are the API's own."""

    async def patch_status(self, spec: PodSpec, body: Object) -> Object:
        if (mirror := self.mirror(spec)) is not None:
            body = {**body, "metadata": {"uid": mirror["metadata"]["uid"]}}
        return await self._client.patch(PODS, spec.name, spec.namespace, body, kind="strategic", subresource="status")

    async def is_gone(self, spec: PodSpec) -> bool:
        try:
            pod = await self._client.get(PODS, spec.name, spec.namespace)
        except NodeplaneError as error:
            if getattr(error, "code", 0) == 404:
                return True
            raise
        return bool((pod.get("metadata") or {}).get("uid") != spec.uid)

    async def create_pod(self, pod: Object) -> None:
        """A mirror. Quiet when another one is there already: the informer will tell which."""
        try:
            await self._client.create(PODS, pod, pod["metadata"]["namespace"])
        except NodeplaneError as error:
            if getattr(error, "code", 0) != 409:
                raise

    async def delete_pod(self, pod: Object) -> None:
        metadata = pod["metadata"]
        await self._delete(metadata["name"], metadata["namespace"], metadata["uid"])

    async def delete(self, spec: PodSpec) -> None:
        await self._delete(spec.name, spec.namespace, spec.uid)

    async def _delete(self, name: str, namespace: str, uid: str) -> None:
        try:
            await self._client.delete(PODS, name, namespace, grace=0, uid=uid)
        except NodeplaneError as error:
            if getattr(error, "code", 0) not in (404, 409):
                raise


class ApiObjects:
    """ports.Objects."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(PARALLEL_READS)

    async def read(self, kind: str, namespace: str, name: str) -> Object | None:
        async with self._slots:
            try:
                return await self._client.get(OBJECTS[kind], name, namespace, timeout=READ_S)
            except NodeplaneError as error:
                if getattr(error, "code", 0) == 404:
                    return None
                raise

    async def token(self, spec: PodSpec, audience: str, seconds: int) -> tuple[str, float]:
        account = (spec.raw.get("spec") or {}).get("serviceAccountName") or "default"
        asked: Object = {
            "expirationSeconds": seconds,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": spec.name, "uid": spec.uid},
        }
        if audience:
            asked["audiences"] = [audience]
        body = {**TOKEN_REQUEST, "metadata": {"name": account, "namespace": spec.namespace}, "spec": asked}
        async with self._slots:
            reply = await self._client.create(SERVICEACCOUNTS, body, spec.namespace, subresource="token")
        return str((reply.get("status") or {}).get("token") or ""), float(seconds)


class ApiRecorder:
    """ports.Recorder."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def pod(self, spec: PodSpec, kind: str, reason: str, message: str, container: ContainerSpec | None = None) -> None:
        if spec.raw:  # orphans have no object to speak of
            self._recorder.event({**spec.raw, **KIND}, kind, reason, message, field_path(container))


def field_path(container: ContainerSpec | None) -> str:
    if container is None:
        return ""
    field = {APP: "containers", EPHEMERAL: "ephemeralContainers"}.get(container.kind, "initContainers")
    return f"spec.{field}{{{container.name}}}"


class Watched(Replica[V]):
    """A replica that also tells when it becomes synced or stale."""

    def __init__(self, on_change: OnChange[V] | None, on_synced: Callable[[], None]) -> None:
        super().__init__(on_change)
        self._told = on_synced
        self.heard = False
        """It was synced at least once."""

    def on_synced(self, synced: bool) -> None:
        super().on_synced(synced)
        self.heard = self.heard or synced
        self._told()

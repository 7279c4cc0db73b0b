"""Clients of the API server: pods, referenced objects, events and services.

One request answers all reads of an object that several pods need at once:

- A read joins another one of the same object only before that is sent: no pod gets an object from before it asked. At
  most one request for an object is under way, and one waits for it.
- The root certificate of a namespace, which every pod mounts with its token, is retained for RETAINED_S. It changes
  with the cluster's certificate authority alone, and files of volumes follow their sources within a minute anyway.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol, TypeAlias, cast
from urllib.parse import urlsplit

from actors.podworker.model.dependencies import Address
from protocols.bounded import BoundedMap
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.kinds.table import (
    CONFIGMAPS,
    PODS,
    RESOURCECLAIMS,
    RUNTIMECLASSES,
    SECRETS,
    SERVICEACCOUNTS,
    SERVICES,
)
from protocols.kube.meta import UNROUTED, Object, fields_of
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder
from protocols.kubeclient.informer import Informer, InformerOptions, ResourceEventHandler
from protocols.lifecycle.pods.types import ContainerSpec, PodSpec
from protocols.lifecycle.status.events import field_path
from protocols.process.tasks import shared

ROOT_CA = "kube-root-ca.crt"
"""Name of the ConfigMap with the root certificate in each namespace."""
RETAINED_S = 10.0
MAX_RETAINED = 256
"""Namespaces."""

Key: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name."""
Load: TypeAlias = Callable[[], Awaitable[Object | None]]


class SharedReads:
    """Reads in flight, and objects that were read a moment ago, by kind, namespace and name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: dict[Key, asyncio.Task[Object | None]] = {}
        self._sent: dict[Key, asyncio.Task[Object | None]] = {}
        self.retained = BoundedMap[Key, tuple[float, Object]](MAX_RETAINED)
        """Objects with the time until which they are valid."""

    async def read(self, key: Key, load: Load) -> Object | None:
        """Return what `load` returns, called for this read or another one that waits. Raises what it raises."""
        until, obj = self.retained.get(key, (0.0, {}))
        if self._clock() < until:
            return obj
        task = self._waiting.get(key)
        if task is None:
            task = self._waiting[key] = shared(self._run(key, load), "read", " ".join(key))
        return await asyncio.shield(task)

    async def _run(self, key: Key, load: Load) -> Object | None:
        if (earlier := self._sent.get(key)) is not None:
            await asyncio.wait([earlier])
        self._sent[key] = self._waiting.pop(key)
        try:
            obj = await load()
        finally:
            del self._sent[key]
        self._retain(key, obj)
        return obj

    def _retain(self, key: Key, obj: Object | None) -> None:
        kind, _, name = key
        if obj is None or (kind, name) != ("ConfigMap", ROOT_CA):
            return
        self.retained[key] = (self._clock() + RETAINED_S, obj)


PARALLEL_READS = 16
READ_S = 5.0
OBJECTS = {
    "ConfigMap": CONFIGMAPS,
    "Secret": SECRETS,
    "ResourceClaim": RESOURCECLAIMS,
    "RuntimeClass": RUNTIMECLASSES,
}
TOKEN_REQUEST = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
FIRST_S = 5.0
"""Time that pods wait for the first list of services before they start without it."""
NAMES = ("name", "namespace", "uid", "resourceVersion")


class Mirrors(Protocol):
    """Finds the mirror pods of static pods."""

    def mirror_of(self, spec: PodSpec) -> views.Pod | None:
        """Return the mirror pod of a static pod, None for other pods. Raises MirrorMissing."""
        ...


class ApiPods:
    """Implements dependencies.Pods, status_manager.PodApi and static_pods.MirrorApi."""

    def __init__(self, client: ApiClient, mirrors: Mirrors | None = None) -> None:
        self._client = client
        self._mirrors = mirrors

    async def patch_status(self, spec: PodSpec, body: Object) -> views.Pod:
        if self._mirrors is not None and (mirror := self._mirrors.mirror_of(spec)) is not None:
            body = {**body, "metadata": {"uid": mirror["metadata"]["uid"]}}
        patched = await self._client.patch(
            PODS, spec.name, spec.namespace, body, kind="strategic", subresource="status"
        )
        return cast("views.Pod", patched)

    async def is_gone(self, spec: PodSpec) -> bool:
        try:
            pod = await self._client.get(PODS, spec.name, spec.namespace)
        except NodeplaneError as error:
            if getattr(error, "code", 0) == 404:
                return True
            raise
        return bool((pod.get("metadata") or {}).get("uid") != spec.uid)

    async def create_pod(self, pod: views.Pod) -> None:
        """Create a mirror pod; no error if one exists already: the informer will bring it."""
        try:
            await self._client.create(PODS, pod, pod["metadata"]["namespace"])
        except NodeplaneError as error:
            if getattr(error, "code", 0) != 409:
                raise

    async def delete_pod(self, pod: views.Pod) -> None:
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
    """Implements dependencies.Objects. Reads at most PARALLEL_READS objects at once, each for all who wait for it.

    Callers share what they get and must not change it.
    """

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._slots = asyncio.Semaphore(PARALLEL_READS)
        self._shared = SharedReads()

    async def read(self, kind: str, namespace: str, name: str) -> Object | None:
        return await self._shared.read((kind, namespace, name), lambda: self._read(kind, namespace, name))

    async def _read(self, kind: str, namespace: str, name: str) -> Object | None:
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
            "boundObjectRef": {**PODS.type_meta, "name": spec.name, "uid": spec.uid},
        }
        if audience:
            asked["audiences"] = [audience]
        body = {**TOKEN_REQUEST, "metadata": {"name": account, "namespace": spec.namespace}, "spec": asked}
        async with self._slots:
            reply = await self._client.create(SERVICEACCOUNTS, body, spec.namespace, subresource="token")
        granted = (reply.get("spec") or {}).get("expirationSeconds")  # a cluster may cap it
        return str((reply.get("status") or {}).get("token") or ""), float(granted or seconds)


class ApiRecorder:
    """Implements dependencies.Recorder."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder

    def pod(self, spec: PodSpec, kind: str, reason: str, message: str, container: ContainerSpec | None = None) -> None:
        if spec.raw:  # orphans have no object for an event
            self._recorder.event({**spec.raw, **PODS.type_meta}, kind, reason, message, field_path(container))


class KnownServices(ResourceEventHandler):
    """Services of the API, reduced to what environment variables need. Containers read them when they start."""

    def __init__(self, client: ApiClient) -> None:
        self._informer = Informer(client, SERVICES, InformerOptions(keep=addresses), self)

    async def run(self) -> None:
        await self._informer.run()

    async def known(self) -> None:
        with contextlib.suppress(TimeoutError):
            await self._informer.wait_synced(FIRST_S)

    def items(self) -> Iterable[views.Service]:
        return tuple(self._informer.items.values())


def addresses(service: views.Service) -> Object:
    """Reduce a service to its name, address and ports; one that nothing routes has no address."""
    metadata, spec = service.get("metadata") or {}, service.get("spec") or {}
    routed = UNROUTED not in (metadata.get("annotations") or {})
    return {
        "metadata": fields_of(metadata, NAMES),
        "spec": {"clusterIP": spec.get("clusterIP") if routed else None, "ports": spec.get("ports")},
    }


def address(url: str) -> Address:
    """Return host and port of a URL; the port is 443 if it names none."""
    parts = urlsplit(url)
    return Address(parts.hostname or "", parts.port or 443)

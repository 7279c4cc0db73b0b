"""EndpointSlice controller: keep the slices of services that select pods."""

import logging
from collections.abc import Awaitable

from actors.controllers.common.informers import ChangeHandler
from actors.controllers.services.endpoints import (
    desired_slices,
    differs,
    selector_of,
    selects,
)
from protocols.actor import Context
from protocols.kinds.table import ENDPOINTSLICES, PODS, SERVICES
from protocols.kube.errors import ApiError
from protocols.kube.meta import (
    SERVICE_NAME_LABEL,
    SLICE_MANAGER,
    SLICE_MANAGER_LABEL,
    Object,
    fields_of,
    key_of,
    labels_of,
    meta,
    name_of,
    namespace_of,
    terminating,
    uid_of,
    version_of,
)
from protocols.kube.pods import sidecars_of
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import Informer, InformerOptions
from protocols.kubeclient.workqueue import Key, WorkQueue

BATCH_S = 0.1
"""Changes of pods within this time are one pass over their service."""
POD_METADATA = ("name", "namespace", "uid", "resourceVersion", "labels", "deletionTimestamp")
POD_SPEC, POD_STATUS = ("nodeName", "hostname", "subdomain"), ("phase", "podIP", "podIPs")


def trim_pod(pod: Object) -> Object:
    """Return the part of a pod that endpoints are made of; sidecars are among its containers."""
    metadata, spec, status = meta(pod), pod.get("spec") or {}, pod.get("status") or {}
    serving = [*(spec.get("containers") or ()), *sidecars_of(pod)]
    ports = [{"ports": container["ports"]} for container in serving if container.get("ports")]
    ready = [condition for condition in status.get("conditions") or () if condition.get("type") == "Ready"]
    return {
        "metadata": fields_of(metadata, POD_METADATA),
        "spec": {**fields_of(spec, POD_SPEC), "containers": ports},
        "status": {**fields_of(status, POD_STATUS), "conditions": ready},
    }


class EndpointSliceController:
    """Owns no state: slices follow from services and pods, also after kill -9."""

    def __init__(self, client: ApiClient, log: logging.Logger) -> None:
        self._client = client
        self._work = WorkQueue(self._sync, log)
        self._due: set[str] = set()
        """Keys of services whose pass is due within BATCH_S."""
        self._by_namespace: dict[str, dict[str, Object]] = {}
        """Services that select pods."""
        self._pods: dict[str, dict[str, Object]] = {}
        self._slices: dict[str, dict[str, Object]] = {}
        """Slices of this controller by key of their service, then by name."""
        mine = InformerOptions(label_selector=f"{SLICE_MANAGER_LABEL}={SLICE_MANAGER}")
        pods = ChangeHandler(self._pod_changed, self._pod_gone)
        self.informers = (
            Informer(client, SERVICES, InformerOptions(), ChangeHandler(self._service_changed, self._service_gone)),
            Informer(client, PODS, InformerOptions(keep=trim_pod), pods),
            Informer(client, ENDPOINTSLICES, mine, ChangeHandler(self._slice_changed, self._slice_gone)),
        )

    async def run(self, context: Context, timeout: float) -> None:
        """Work once services, pods and slices are listed. Raises TimeoutError."""
        for informer in self.informers:
            context.spawn(informer.run(), "endpoints")
        for informer in self.informers:
            await informer.wait_synced(timeout)
        await self._work.run()

    # informers

    def _service_changed(self, service: Object) -> None:
        """Forget a service without a selector: its slices are its owner's, also those made while it had one."""
        if selector_of(service) is None or terminating(service):
            return self._service_gone(service)
        self._by_namespace.setdefault(namespace_of(service), {})[key_of(service)] = service
        return self._put(key_of(service))

    def _service_gone(self, service: Object) -> None:
        services = self._by_namespace.get(namespace_of(service), {})
        services.pop(key_of(service), None)
        if not services:
            self._by_namespace.pop(namespace_of(service), None)
        self._put(key_of(service))

    def _pod_changed(self, pod: Object) -> None:
        pods = self._pods.setdefault(namespace_of(pod), {})
        before = pods.get(key_of(pod))
        pods[key_of(pod)] = pod
        self._put_services_of(pod, before)

    def _pod_gone(self, pod: Object) -> None:
        pods = self._pods.get(namespace_of(pod), {})
        pods.pop(key_of(pod), None)
        if not pods:
            self._pods.pop(namespace_of(pod), None)
        self._put_services_of(pod, None)

    def _put_services_of(self, pod: Object, before: Object | None) -> None:
        for key, service in self._by_namespace.get(namespace_of(pod), {}).items():
            if selects(service, pod) or (before is not None and selects(service, before)):
                self._put(key)

    def _slice_changed(self, found: Object) -> None:
        key = _service_key(found)
        self._slices.setdefault(key, {})[name_of(found)] = found
        self._put(key)

    def _slice_gone(self, found: Object) -> None:
        key = _service_key(found)
        slices = self._slices.get(key, {})
        slices.pop(name_of(found), None)
        if not slices:
            self._slices.pop(key, None)
        self._put(key)

    def _put(self, key: str) -> None:
        if key not in self._due:
            self._due.add(key)
            self._work.put_later(("endpoints", key), BATCH_S)

    # work

    async def _sync(self, work: Key) -> None:
        key = work[1]
        self._due.discard(key)
        namespace = key.partition("/")[0]
        service, known = self._by_namespace.get(namespace, {}).get(key), self._slices.get(key, {})
        if service is None:
            return
        pods = self._pods.get(namespace, {}).values()
        wanted = {name_of(endpoint_slice): endpoint_slice for endpoint_slice in desired_slices(service, pods)}
        for name, desired in wanted.items():
            if name not in known:
                await self._create(desired)
            elif differs(known[name], desired):
                await self._update(known[name], desired)
        for surplus in [known[name] for name in known.keys() - wanted.keys()]:
            await self._delete(surplus)

    async def _create(self, wanted: Object) -> None:
        await _overtaken(self._client.create(ENDPOINTSLICES, wanted, namespace_of(wanted)))

    async def _update(self, known: Object, wanted: Object) -> None:
        labels = {**dict.fromkeys(labels_of(known)), **labels_of(wanted)}  # null removes a label
        metadata = {"resourceVersion": version_of(known), "labels": labels}
        body = {"metadata": metadata, "endpoints": wanted["endpoints"]}
        await _overtaken(self._client.patch(ENDPOINTSLICES, name_of(known), namespace_of(known), body))

    async def _delete(self, known: Object) -> None:
        await _overtaken(self._client.delete(ENDPOINTSLICES, name_of(known), namespace_of(known), uid=uid_of(known)))


async def _overtaken(write: Awaitable[Object]) -> None:
    """Await a write that others may have made void: the informer brings what is there now. Raises other errors."""
    try:
        await write
    except ApiError as error:
        if error.code not in (404, 409) and not error.namespace_ends:
            raise


def _service_key(found: Object) -> str:
    return f"{namespace_of(found)}/{labels_of(found).get(SERVICE_NAME_LABEL, '')}"

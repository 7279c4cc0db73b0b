"""The API as the console uses it: watches of pods and ResourceSlices, and reads when a pod or device is opened."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from protocols.cel.worker.forked import forked_selections
from protocols.dra.decode import slice_of
from protocols.dra.gates import Gates, gates_of
from protocols.dra.types import ObjectUnreadable
from protocols.errors import NodeplaneError, SettingsInvalid
from protocols.kinds.table import EVENTS, PODS, RESOURCESLICES
from protocols.kube.errors import ApiAway
from protocols.kube.meta import Object, event_time, fields_of, key_of
from protocols.kubeclient.client import ApiClient, ClientOptions
from protocols.kubeclient.exec import ContainerName, exec_output
from protocols.kubeclient.informer import Informer, InformerOptions, ResourceEventHandler
from protocols.process.layout import Layout, layout
from protocols.process.settings import load_settings
from protocols.process.tasks import awaited, cancel
from supervisor.base.groups import APISERVER
from supervisor.console.model.devices import SliceDevice
from supervisor.console.model.pods import Pod, pod_of
from supervisor.console.model.world import World
from supervisor.dra.show import explained
from supervisor.dra.snapshot import snapshot_of
from supervisor.dra.sources import list_objects

READ_S = 5.0
CLOSED_S = 0.05
"""aiohttp returns from close() before its TLS connections are closed."""
STATE_S = 1.0
NUMA = ("numa", "numaNode")
"""Attributes (without their domain) that name a device's NUMA node."""
MAX_EVENTS = 50
LOG_LINES = 100
LOG_BYTES = LOG_LINES * (16 << 10)
"""Runtimes split longer lines. With a lower limit an API leaves out the last lines, and those are shown first."""


class Api:
    """Waits until a plane has an API. A plane without one, such as `adopt`, shows no pods."""

    def __init__(self, layout: Layout, world: World) -> None:
        self._layout = layout
        self._world = world
        self._client: ApiClient | None = None
        self._options: ClientOptions | None = None

    async def follow(self) -> None:
        """Follow pods and ResourceSlices until cancelled."""
        try:
            client = await self._start()
        except (NodeplaneError, OSError) as error:
            self._world.pods.failure = str(error)
            self._world.changed()
            await self._close()
            return  # the feed runs it again
        pods = Informer(client, PODS, InformerOptions(keep=_keep_pod), _Pods(self._world))
        slices = Informer(client, RESOURCESLICES, InformerOptions(keep=keep_slice, optional=True), _Slices(self._world))
        tasks = [awaited(work) for work in (pods.run(), slices.run(), self._state(pods))]
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel(*tasks)
            await self._close()

    async def _start(self) -> ApiClient:
        """Connect as the plane's admin. Raises ApiAway, NodeplaneError, OSError."""
        if not self._server():
            raise ApiAway("this plane reports no API")
        owner = layout(str(self._layout.plane))  # the root of a further node has no admin
        cert, key = owner.client_cert("admin")
        self._options = ClientOptions(server=self._server(), ca=owner.ca_cert, cert=cert, key=key, timeout=READ_S)
        self._client = ApiClient(self._options)
        await self._client.start()
        return self._client

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client:
            await client.close()
        await asyncio.sleep(CLOSED_S)

    async def events_of(self, uid: str, namespace: str) -> list[Object]:
        """Return the newest events of an object. Raises ApiError, ApiAway."""
        selector = f"involvedObject.uid={uid}"
        event_list = await self._started().list(EVENTS, namespace, field_selector=selector)
        items: list[Object] = event_list.get("items") or []
        return sorted(items, key=event_time, reverse=True)[:MAX_EVENTS]

    async def log_of(self, namespace: str, name: str, container: str) -> str:
        """Return the end of a container's log. Raises ApiError, ApiAway."""
        query = {"container": container, "tailLines": str(LOG_LINES), "limitBytes": str(LOG_BYTES)}
        return await self._started().text(PODS.path(name, namespace, "log"), query, LOG_BYTES)

    async def delete(self, pod: Pod) -> None:
        """Delete this pod, but no later one of its name. Raises ApiError, ApiAway."""
        await self._started().delete(PODS, pod.name, pod.namespace, uid=pod.uid)

    def exec_in(self, pod: Pod, container: str, command: Sequence[str]) -> AsyncGenerator[bytes, None]:
        """Run a command and yield its output. Raises CommandFailed, ApiError, ApiAway."""
        return exec_output(self._started(), ContainerName(pod.namespace, pod.name, container), command)

    async def explain(self, device: str) -> str:
        """Return a driver's device as published and patched, with who said what. Raises ApiError, ApiAway."""
        objects = await list_objects(self._started(), driver=device.partition("/")[0])
        settings = layout(str(self._layout.plane)).settings
        return await asyncio.to_thread(_explained, objects, device, settings)

    def _started(self) -> ApiClient:
        if self._client is None:
            raise ApiAway("the plane has no API yet")
        return self._client

    def _server(self) -> str:
        address = self._world.house.endpoints.get("api", "")
        return address if address.startswith("https:") else ""

    def _served(self) -> bool:
        """Return True if an API process serves: a watch that is open again reports nothing until its next event."""
        actors = self._world.house.actors.values()
        return any(actor.serving for actor in actors if actor.name.startswith(APISERVER))

    async def _state(self, pods: Informer) -> None:
        """Report the state of the watch. Raises ApiAway when the API has moved to another port."""
        while True:
            await asyncio.sleep(STATE_S)
            if self._options and self._server() != self._options.server:
                raise ApiAway(f"the API moved to {self._server()}")
            state = (pods.synced, "" if pods.synced and self._served() else pods.failure)
            if state != (self._world.pods.synced, self._world.pods.failure):
                self._world.pods.synced, self._world.pods.failure = state
                self._world.changed()


class _Pods(ResourceEventHandler):
    """Handler of the pods' watch."""

    def __init__(self, world: World) -> None:
        self._world = world

    def on_add(self, obj: Object) -> None:
        if self._world.pods.put(obj["row"]):
            self._world.pleg.status_changed(obj["row"].uid, time.time())
        self._world.changed()

    def on_delete(self, obj: Object) -> None:
        self._world.pods.remove(key_of(obj))
        uid = str(obj["metadata"].get("uid"))  # a deleted object comes as the API sent it, without a row
        self._world.pleg.pod_deleted(uid, key_of(obj))
        self._world.changed()


class _Slices(ResourceEventHandler):
    """Handler of the ResourceSlices' watch."""

    def __init__(self, world: World) -> None:
        self._world = world

    def on_add(self, obj: Object) -> None:
        self._world.devices.slices[key_of(obj)] = obj["row"]
        self._changed()

    def on_delete(self, obj: Object) -> None:
        self._world.devices.slices.pop(key_of(obj), None)
        self._changed()

    def _changed(self) -> None:
        self._world.devices.changed()
        self._world.changed()


def _keep_pod(obj: Object) -> Object:
    return {"metadata": _identity(obj), "row": pod_of(obj)}


def keep_slice(obj: Object) -> Object:
    """Reduce a ResourceSlice to the names and NUMA nodes of its devices."""
    try:
        parsed = slice_of(obj)
    except ObjectUnreadable:
        return {"metadata": _identity(obj), "row": ()}
    row = tuple(
        SliceDevice(parsed.driver, parsed.pool, device.name, _numa(device.attributes)) for device in parsed.devices
    )
    return {"metadata": _identity(obj), "row": row}


def _identity(obj: Object) -> Object:
    return fields_of(obj["metadata"], ("name", "namespace", "uid", "resourceVersion"))


def _numa(attributes: Any) -> tuple[int, ...]:
    for name, attribute in attributes.items():
        if name.rpartition("/")[2] in NUMA and isinstance(attribute.value, int):
            return (attribute.value,)
    return ()


def _explained(objects: list[Object], device: str, settings: Path) -> str:
    with forked_selections():
        explanations = snapshot_of(objects, _gates(settings)).explanations(device)
    return "\n\n".join(map(explained, explanations)) or "no ResourceSlice publishes this device"


def _gates(settings: Path) -> Gates:
    """Return the plane's feature gates, or all of them on if its settings cannot be read."""
    with suppress(SettingsInvalid):
        return gates_of(load_settings(settings).gate)
    return Gates()

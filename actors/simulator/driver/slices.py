"""The ResourceSlices of the driver: how devices become slices, and the publisher that keeps them in the API."""

import asyncio
import time
from collections.abc import Callable, Sequence

from actors.simulator.driver.options import GPU_MEMORY_GI, CardDevice, DriverOptions
from protocols.dra.pools import slice_contents
from protocols.errors import NodeplaneError
from protocols.kinds.table import NODES, RESOURCESLICES
from protocols.kube.meta import Object
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import Informer, InformerOptions
from protocols.process.rates import backoff_delay
from protocols.process.tasks import awaited, restarted

MEMORY_STEP = "256Mi"
REQUEST_POLICY = {"default": MEMORY_STEP, "validRange": {"min": MEMORY_STEP, "step": MEMORY_STEP}}
"""Request policy for the memory of shared devices; the memory of a part is never less."""


def slice_specs(options: DriverOptions, devices: Sequence[CardDevice], generation: int) -> list[Object]:
    """Return the specs of all slices of the pool, which is named after the node."""
    listed = {spec.name: spec.published for spec in options.script.listed}
    described = [listed.get(device.name) or _device(options, device) for device in devices]
    counters = list(options.script.shared_counters)
    if options.script.partitions:
        counters = [_counters(options, device) for device in devices if device.part < 0]
    contents = slice_contents(described, counters)
    pool = {"name": options.node, "generation": generation, "resourceSliceCount": len(contents)}
    return [{"driver": options.driver, "nodeName": options.node, "pool": pool, **content} for content in contents]


def slice_object(options: DriverOptions, number: int, spec: Object, node_uid: str) -> Object:
    """Return a slice that is owned by the node, so that it is deleted with the node."""
    owner = {**NODES.type_meta, "name": options.node, "uid": node_uid, "controller": True}
    return {
        **RESOURCESLICES.type_meta,
        "metadata": {"name": f"{options.node}-{options.driver}-{number}", "ownerReferences": [owner]},
        "spec": spec,
    }


def _device(options: DriverOptions, device: CardDevice) -> Object:
    share = options.script.partitions if device.part >= 0 else 1
    attributes: Object = {
        "index": {"int": device.card},
        "uuid": {"string": options.uuid(device)},
        "model": {"string": "nodeplane-example"},
        "type": {"string": "card" if device.part < 0 else "part"},
    }
    if (numa := options.numa_node(device)) is not None:
        attributes["numa"] = {"int": numa}
    memory = _memory(share)
    entry: Object = {"name": device.name, "attributes": attributes, "capacity": {"memory": {"value": memory}}}
    if options.script.shared:
        entry["allowMultipleAllocations"] = True
        entry["capacity"]["memory"]["requestPolicy"] = REQUEST_POLICY
    if options.script.attach:
        conditions = {"bindingConditions": [options.attached], "bindingFailureConditions": [options.attach_failed]}
        entry |= {"bindsToNode": True, **conditions}
    if options.script.partitions:
        parts = 1 if device.part >= 0 else options.script.partitions
        counters = {"memory": {"value": memory}, "parts": {"value": str(parts)}}
        entry["consumesCounters"] = [{"counterSet": _set_name(device), "counters": counters}]
    return entry


def _counters(options: DriverOptions, card: CardDevice) -> Object:
    counters = {"memory": {"value": _memory(1)}, "parts": {"value": str(options.script.partitions)}}
    return {"name": _set_name(card), "counters": counters}


def _memory(share: int) -> str:
    return f"{GPU_MEMORY_GI // share}Gi" if GPU_MEMORY_GI % share == 0 else f"{GPU_MEMORY_GI * 1024 // share}Mi"


def _set_name(device: CardDevice) -> str:
    return f"card-{device.card}"


RETRY_FIRST, RETRY_MOST = 0.2, 5.0
INFORMER_TIMEOUT_S = 5.0


class Publisher:
    """Keep our ResourceSlices in the API as they should be, whoever changes or deletes them.

    It is the handler of an informer: the node deletes the slices of a driver that is gone, and they are created again.
    """

    def __init__(self, options: DriverOptions, client: ApiClient, say: Callable[[str], None]) -> None:
        self._options = options
        self._client = client
        self._say = say
        self._devices: list[CardDevice] = []
        self._generation = 1
        self._accepted: dict[str, tuple[Object, Object]] = {}
        """Specs that we wrote and that the API answered, by slice: it writes quantities and times in its own way."""
        self._dirty = asyncio.Event()
        mine = f"spec.nodeName={options.node},spec.driver={options.driver}"
        self._informer = Informer(client, RESOURCESLICES, InformerOptions(field_selector=mine), self)

    def offer(self, devices: list[CardDevice]) -> None:
        """Replace the published devices."""
        if devices != self._devices:
            self._devices = devices
            self._generation += 1
            self._dirty.set()

    def on_add(self, obj: Object) -> None:
        self._dirty.set()

    def on_update(self, old: Object, new: Object) -> None:
        self._dirty.set()

    def on_delete(self, obj: Object) -> None:
        self._dirty.set()

    async def run(self) -> None:
        """Publish now and after each change. Never ends."""
        watching = awaited(restarted(self._informer.run, "informer"))
        try:
            while not self._informer.synced:
                await asyncio.wait([watching], timeout=0.05)
            self._dirty.set()
            await self._publish_changes()
        finally:
            watching.cancel()

    async def _publish_changes(self) -> None:
        failures, complaint = 0, ""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self._reconcile()
                failures, complaint = 0, ""
            except NodeplaneError as error:
                if str(error) != complaint:
                    self._say(f"slices not published yet: {error}")
                complaint = str(error)
                failures += 1
                await asyncio.sleep(backoff_delay(failures, RETRY_FIRST, RETRY_MOST))
                self._dirty.set()

    async def _reconcile(self) -> None:
        actual = dict(self._informer.items)
        self._generation = max([self._generation, *(_generation(item) for item in actual.values())])
        desired = self._desired()
        if actual.keys() != desired.keys() or any(map(self._differs, actual.values(), map(desired.get, actual))):
            if actual:
                self._generation += 1  # lets readers distinguish old slices of the pool from new ones
            node = await self._client.get(NODES, self._options.node)
            await self._write(actual, self._desired(str(node["metadata"]["uid"])))

    def _differs(self, actual: Object, desired: Object | None) -> bool:
        wanted = (desired or {}).get("spec")
        sent, answered = self._accepted.get(actual["metadata"]["name"], (wanted, wanted))
        return bool(actual.get("spec") != (answered if sent == wanted else wanted))

    def _desired(self, node_uid: str = "") -> dict[str, Object]:
        specs = slice_specs(self._options, self._devices, self._generation)
        objects = [slice_object(self._options, number, spec, node_uid) for number, spec in enumerate(specs)]
        return {obj["metadata"]["name"]: obj for obj in objects}

    async def _write(self, actual: dict[str, Object], desired: dict[str, Object]) -> None:
        written = {}
        for name, obj in desired.items():
            if name in actual:
                obj["metadata"]["resourceVersion"] = actual[name]["metadata"]["resourceVersion"]
                answer = await self._client.update(RESOURCESLICES, obj)
            else:
                answer = await self._client.create(RESOURCESLICES, obj)
            written[name], self._accepted[name] = _version(answer), (obj["spec"], answer["spec"])
        for name in actual.keys() - desired.keys():
            await self._client.delete(RESOURCESLICES, name)
            self._accepted.pop(name, None)
        if not await self._is_shown(written):
            self._dirty.set()
        self._say(f"published {len(self._devices)} devices in {len(desired)} slices of pool {self._options.node}")

    async def _is_shown(self, written: dict[str, str]) -> bool:
        """Wait until the informer has our writes; until then its slices look outdated and would be written again.

        False: it does not have them in time. A backup that was restored right after a write lacks it, and no event will
        show that.
        """
        end = time.monotonic() + INFORMER_TIMEOUT_S
        while time.monotonic() < end:
            if {name: _version(item) for name, item in self._informer.items.items()} == written:
                return True
            await asyncio.sleep(0.02)
        return False


def _version(item: Object) -> str:
    return str(item["metadata"]["resourceVersion"])


def _generation(item: Object) -> int:
    return int(((item.get("spec") or {}).get("pool") or {}).get("generation") or 0)

"""Keeps our ResourceSlices in the API as they are to be, whoever changes or deletes them."""

import asyncio
import time
from collections.abc import Callable

from protocols.errors import NodeplaneError
from protocols.kube.client import ApiClient
from protocols.kube.informer import Informer, InformerOptions
from protocols.kube.resources import NODES, RESOURCESLICES
from supervisor.dra_driver.slices import Object, slice_object, slice_specs
from supervisor.dra_driver.types import Device, DriverOptions

RETRY_FIRST, RETRY_MOST = 0.2, 5.0
SEEN_S = 5.0


class Publisher:
    """An informer's handler: the node deletes our slices when it thinks we are gone, and we make them again."""

    def __init__(self, options: DriverOptions, client: ApiClient, say: Callable[[str], None]) -> None:
        self._options = options
        self._client = client
        self._say = say
        self._devices: list[Device] = []
        self._generation = 1
        self._dirty = asyncio.Event()
        mine = f"spec.nodeName={options.node},spec.driver={options.driver}"
        self._informer = Informer(client, RESOURCESLICES, InformerOptions(field_selector=mine), self)

    def offer(self, devices: list[Device]) -> None:
        """These and no others, from now on."""
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
        """Never ends; nothing runs while all is as it is to be."""
        watching = asyncio.create_task(self._informer.run())
        try:
            while not self._informer.synced:
                await asyncio.wait([watching], timeout=0.05)
            self._dirty.set()
            await self._keep()
        finally:
            watching.cancel()

    async def _keep(self) -> None:
        pause, complaint = RETRY_FIRST, ""
        while True:
            await self._dirty.wait()
            self._dirty.clear()
            try:
                await self._once()
                pause, complaint = RETRY_FIRST, ""
            except NodeplaneError as error:
                if str(error) != complaint:
                    self._say(f"slices not published yet: {error}")
                complaint = str(error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, RETRY_MOST)
                self._dirty.set()

    async def _once(self) -> None:
        there = dict(self._informer.items)
        self._generation = max([self._generation, *(_generation(item) for item in there.values())])
        wanted = self._wanted()
        if any(_differs(there.get(name), obj) for name, obj in wanted.items()) or there.keys() - wanted.keys():
            if there:
                self._generation += 1  # readers must be able to tell old slices of the pool from new ones
            node = await self._client.get(NODES, self._options.node)
            await self._write(there, self._wanted(str(node["metadata"]["uid"])))

    def _wanted(self, node_uid: str = "") -> dict[str, Object]:
        specs = slice_specs(self._options, self._devices, self._generation)
        objects = [slice_object(self._options, number, spec, node_uid) for number, spec in enumerate(specs)]
        return {obj["metadata"]["name"]: obj for obj in objects}

    async def _write(self, there: dict[str, Object], wanted: dict[str, Object]) -> None:
        written = {}
        for name, obj in wanted.items():
            if name in there:
                obj["metadata"]["resourceVersion"] = there[name]["metadata"]["resourceVersion"]
                written[name] = _version(await self._client.update(RESOURCESLICES, obj))
            else:
                written[name] = _version(await self._client.create(RESOURCESLICES, obj))
        for name in there.keys() - wanted.keys():
            await self._client.delete(RESOURCESLICES, name)
        await self._seen(written)
        self._say(f"published {len(self._devices)} devices in {len(wanted)} slices of pool {self._options.node}")

    async def _seen(self, written: dict[str, str]) -> None:
        """Our own writes come back to us; before that, what is there looks older than it is."""
        end = time.monotonic() + SEEN_S
        while time.monotonic() < end:
            if {name: _version(item) for name, item in self._informer.items.items()} == written:
                return
            await asyncio.sleep(0.02)


def _version(item: Object) -> str:
    return str(item["metadata"]["resourceVersion"])


def _generation(item: Object) -> int:
    return int(((item.get("spec") or {}).get("pool") or {}).get("generation") or 0)


def _differs(there: Object | None, wanted: Object) -> bool:
    return there is None or there.get("spec") != wanted["spec"]

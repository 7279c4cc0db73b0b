"""A stand-in for the drivers of all nodes: it publishes pools anew, each in two slices, one written after the other.

Its devices are drawn: they come and go, and some are tainted. It lives until the run's end, and begins no new
generation once `ended`, so that every pool is complete then.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Any

from protocols.kinds.table import DEVICECLASSES, RESOURCESLICES
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object, meta
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.simulation.control.workloads import NODES_COUNT
from tests.simulation.model import Main
from tests.simulation.workloads.flow import created, template
from tests.simulation.world.process import Process

PAUSE_S, RETRY_S = 4.0, 0.3
DEVICES = 3
"""Of each pool; the first is in a slice of its own."""
ABSENT, TAINTED = 0.1, 0.1
"""Shares of the devices of a generation."""
COLOURS = "red", "blue"
FLAWS = (("worn", "NoSchedule"), ("broken", "NoExecute"))
"""Keys and effects of taints."""
Pool = tuple[str, int]
"""A flow, and the number of a node."""
Parts = tuple[Object, Object]
"""What the two slices of a pool hold."""


def driver_name(flow: str) -> str:
    return f"{flow}.example.com"


async def make_class(client: ApiClient, flow: str) -> None:
    """Make the device class of a flow, named as the flow: all devices of its driver."""
    selectors = [{"cel": {"expression": f'device.driver == "{driver_name(flow)}"'}}]
    await created(client, DEVICECLASSES, {"spec": {"selectors": selectors}}, flow)


def templated(name: str, **spec: Any) -> Object:
    """Return the spec of a pod that uses a claim of this template."""
    made: Object = template({}, **spec)["spec"]
    made["resourceClaims"] = [{"name": "c", "resourceClaimTemplateName": name}]
    made["containers"][0]["resources"]["claims"] = [{"name": "c"}]
    return made


class Driver:
    def __init__(
        self, flows: Sequence[str], varying: Sequence[str] = (), fixed: Mapping[str, Parts] | None = None
    ) -> None:  # fmt: skip
        """`varying` are those flows whose devices come, go and are tainted; what `fixed` ones publish is given."""
        self._pools: list[Pool] = [(flow, node) for flow in flows for node in range(NODES_COUNT)]
        self._varying, self._fixed = varying, fixed or {}
        self.ended = False

    def main(self, options: ClientOptions) -> Main:
        async def main(process: Process) -> None:
            client = ApiClient(options)
            await client.start()
            chance = process.world.random(f"load/{process.name}")
            incomplete = list(self._pools)
            while True:
                if not incomplete and not self.ended:
                    incomplete.append(chance.choice(self._pools))
                try:
                    while incomplete:
                        await self._publish(client, chance, incomplete[-1])
                        incomplete.pop()
                except (ApiError, ApiAway):
                    await asyncio.sleep(RETRY_S)
                else:
                    await asyncio.sleep(chance.expovariate(1 / PAUSE_S))

        return main

    async def _publish(self, client: ApiClient, chance: random.Random, pool: Pool) -> None:
        flow, node = pool
        name = f"{flow}-n{node}"
        parts = self._fixed.get(flow) or self._parts(flow, chance)
        held = [await _held(client, f"{name}-{part}") for part in range(len(parts))]
        newest = max((each["spec"]["pool"]["generation"] for each in held if each), default=0)
        shown = {"name": name, "generation": newest + 1, "resourceSliceCount": len(parts)}
        for part, before in enumerate(held):
            there = self._present(flow, parts[part], chance)
            spec = {"driver": driver_name(flow), "nodeName": f"n{node}", "pool": shown, **there}
            body = {**RESOURCESLICES.type_meta, "metadata": {"name": f"{name}-{part}"}, "spec": spec}
            if before:
                await client.update(RESOURCESLICES, {**body, "metadata": meta(before)})
            else:
                await client.create(RESOURCESLICES, body)

    def _parts(self, flow: str, chance: random.Random) -> Parts:
        devices = [self._device(f"d{number}", flow, chance) for number in range(DEVICES)]
        return {"devices": devices[:1]}, {"devices": devices[1:]}

    def _present(self, flow: str, part: Object, chance: random.Random) -> Object:
        if flow not in self._varying:
            return part
        return {"devices": [device for device in part["devices"] if chance.random() > ABSENT]}

    def _device(self, name: str, flow: str, chance: random.Random) -> Object:
        device: Object = {"name": name, "attributes": {"colour": {"string": chance.choice(COLOURS)}}}
        if flow in self._varying and chance.random() < TAINTED:
            key, effect = chance.choice(FLAWS)
            device["taints"] = [{"key": key, "effect": effect}]
        return device


async def _held(client: ApiClient, name: str) -> Object | None:
    try:
        return await client.get(RESOURCESLICES, name)
    except ApiError as error:
        if error.code != 404:
            raise
        return None

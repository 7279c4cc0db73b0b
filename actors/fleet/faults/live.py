"""A fleet that takes orders while it runs, and plays a script."""

import argparse
import asyncio
from collections import Counter
from functools import partial

from actors.fleet.faults.control import Answer, Control, Order, socket_path
from actors.fleet.faults.player import Player, Say, check_fault
from actors.fleet.faults.script import Script, read_bad_day
from actors.fleet.shell.fleet import Fleet
from protocols.messages.devices import HEALTHY, UNHEALTHY, UNKNOWN
from protocols.messages.fleet import DeviceCount, FleetStatus
from protocols.process.layout import Layout


class LiveFleet:
    """`async with` it; call `run` in a task."""

    def __init__(self, fleet: Fleet, layout: Layout, args: argparse.Namespace, say: Say) -> None:
        """`args`: with `script` and `seed`. Raises ScriptInvalid, SettingsInvalid."""
        self._fleet = fleet
        self._script: Script | None = read_bad_day(args.script) if args.script else None
        for step in self._script.steps if self._script else ():
            check_fault(step, fleet)
        seed = args.seed if args.seed is not None or self._script is None else self._script.seed
        self.player = Player(fleet, seed or 0, say)
        self._control = Control(socket_path(layout, fleet.options.name), partial(perform, fleet, self.player))

    async def run(self) -> None:
        """Run the fleet, and play the script once all nodes are registered. Never returns."""
        await asyncio.gather(self._fleet.run(), self.player.play(self._script))

    async def __aenter__(self) -> "LiveFleet":
        await self._control.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        self._control.stop()


def perform(fleet: Fleet, player: Player, order: Order) -> Answer:
    """Carry out an order. Raises ScriptInvalid."""
    if order.fault is not None:
        return Answer(hit=player.inject(order.fault))
    return Answer(status=fleet_status(fleet, player))


def fleet_status(fleet: Fleet, player: Player) -> FleetStatus:
    """Count the nodes, pods and devices of a fleet, and the faults that were played."""
    nodes = fleet.nodes.values()
    return FleetStatus(
        name=fleet.options.name,
        nodes=len(nodes),
        registered=len(fleet.registry.registered),
        silent=sum(node.silent for node in nodes),
        pods=dict(sorted(Counter(pod.phase or "Pending" for pod in fleet.pods.pods.values()).items())),
        devices=tuple(_device_counts(fleet)),
        writes=fleet.pods.writes,
        events_dropped=sum(recorder.dropped for recorder in fleet.recorders),
        seed=player.seed,
        fault_count=player.count,
        faults=tuple(player.played),
    )


def _device_counts(fleet: Fleet) -> list[DeviceCount]:
    counts = Counter(
        (report.resource, report.health) for node in fleet.nodes.values() for report in node.devices.reports()
    )
    names = sorted({name for name, _ in counts})
    return [
        DeviceCount(name=name, health={state: counts[name, state] for state in (HEALTHY, UNHEALTHY, UNKNOWN)})
        for name in names
    ]

"""Plays faults on a running fleet: those of a script at their times, and those of users at once."""

import argparse
import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from functools import partial

import msgspec

from actors.fleet.faults.choice import draws
from actors.fleet.faults.control import Answer, Control, Order, socket_path
from actors.fleet.faults.effects import Targets, apply, choose, describe
from actors.fleet.faults.script import Fault, Script, read_bad_day, timeline
from actors.fleet.shell.fleet import Fleet
from protocols.messages.devices import HEALTHY, UNHEALTHY, UNKNOWN
from protocols.messages.fleet import DeviceCount, FleetStatus, Hit, PlayedFault
from protocols.process.layout import Layout
from protocols.process.scripts import ScriptInvalid

MAX_LASTING = 10_000
"""Faults that are to be mended later."""
RECORDED = 100
"""Faults that the status shows."""
Say = Callable[[str], None]


class Player:
    """`seed` decides all draws: a run with the same seed and profile hits the same nodes and devices."""

    def __init__(self, fleet: Fleet, seed: int, say: Say) -> None:
        self._fleet = fleet
        self.seed = seed
        self._say = say
        self._began = time.monotonic()
        self._lasting = 0
        self.played: deque[PlayedFault] = deque(maxlen=RECORDED)
        self.count = 0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._began

    async def play(self, script: Script | None) -> None:
        """Play a script to its end. Its time begins once all nodes are registered."""
        await self._fleet.registry.ready.wait()
        self._began = time.monotonic()
        for due in timeline(script) if script is not None else ():
            await asyncio.sleep(due.at - self.elapsed)
            drawn_by = f"step {due.number}" if due.step.seed is None else due.step.seed
            try:
                self._play(due.step, f"at {due.at:g}s", drawn_by, due.times)
            except ScriptInvalid as error:
                self._say(f"at {due.at:g}s: {error}")
        if script is not None:
            self._say("the script is over")

    def inject(self, fault: Fault) -> Hit:
        """Let a fault happen now. Raises ScriptInvalid for what the fleet does not have, and one that hits no node."""
        check_fault(fault, self._fleet)
        if fault.seed is None:
            fault = msgspec.structs.replace(fault, seed=0)
        hit = self._play(fault, f"live at {self.elapsed:.1f}s", fault.seed, 0)
        if not hit.nodes:
            count = len(self._fleet.nodes)
            raise ScriptInvalid(f"the fault hits none of the {count} nodes; see `kubectl get nodes --show-labels`")
        return hit

    def _play(self, fault: Fault, when: str, *drawn_by: object) -> Hit:
        if fault.lasts and self._lasting >= MAX_LASTING:
            raise ScriptInvalid(f"{MAX_LASTING} faults wait for their end; let some end, or make them last shorter")
        fleet = self._fleet
        targets = choose(fault, fleet.nodes, fleet.pods.pods, draws(self.seed, *drawn_by))
        hit = self._apply(fault, targets, when)
        if fault.lasts:
            self._lasting += 1
            asyncio.get_running_loop().call_later(fault.lasts, partial(self._end, fault, targets))
        self.count += 1
        self.played.append(PlayedFault(at=round(self.elapsed, 3), fault=fault.words, hit=hit))
        return hit

    def _end(self, fault: Fault, targets: Targets) -> None:
        self._lasting -= 1
        self._apply(fault.end, targets, f"mended at {self.elapsed:.1f}s")

    def _apply(self, fault: Fault, targets: Targets, when: str) -> Hit:
        apply(fault, targets, time.time_ns())
        self._notify(fault, targets)
        hit = describe(fault, targets, len(self._fleet.nodes))
        self._say(f"{when}: {hit.text}")
        return hit

    def _notify(self, fault: Fault, targets: Targets) -> None:
        """Let the fleet write what follows."""
        registry, pods = self._fleet.registry, self._fleet.pods
        if fault.action == "crash":
            pods.wake(targets.pods)
            return
        for node in targets.nodes:
            if fault.action == "node" and not node.silent:
                registry.resume(node)
                pods.wake_node(node)
            elif fault.action == "slices":
                registry.publish(node)
            elif fault.action != "node":
                pods.check_health(node)
                if fault.plugin:
                    registry.report(node)
                elif fault.action == "state":
                    registry.publish(node)


def check_fault(fault: Fault, fleet: Fleet) -> None:
    """Raise ScriptInvalid for a fault of what the fleet does not have."""
    nodes = fleet.nodes.values()
    groups = {node.template.group for node in nodes}
    plugins = {plugin.resource for node in nodes for plugin in node.template.plugins}
    drivers = {driver.driver for node in nodes for driver in node.template.drivers}
    for kind, name, known in (
        ("group", fault.group, groups), ("plugin", fault.plugin, plugins), ("driver", fault.driver, drivers)
    ):  # fmt: skip
        if name and name not in known:
            raise ScriptInvalid(f"the fleet has no {kind} {name:.64}; there are {', '.join(sorted(known)) or 'none'}")


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

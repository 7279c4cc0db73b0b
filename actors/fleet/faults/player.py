"""Plays faults on a running fleet: those of a script at their times, and those of users at once."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from functools import partial

import msgspec

from actors.fleet.faults.choice import draws
from actors.fleet.faults.effects import Mark, Targets, apply, choose, describe, marks, still_hit
from actors.fleet.faults.script import Fault, Script, timeline
from actors.fleet.shell.fleet import Fleet
from protocols.messages.fleet import Hit, PlayedFault
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
        self._newest: dict[Mark, int] = {}
        """Number of the last fault by what it hit; bounded by the nodes and devices of the fleet."""
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
        self.count += 1
        self._newest.update(dict.fromkeys(marks(fault, targets), self.count))
        if fault.lasts:
            self._lasting += 1
            asyncio.get_running_loop().call_later(fault.lasts, partial(self._end, fault, targets, self.count))
        self.played.append(PlayedFault(at=round(self.elapsed, 3), fault=fault.words, hit=hit))
        return hit

    def _end(self, fault: Fault, targets: Targets, number: int) -> None:
        """Mend what no later fault has hit."""
        self._lasting -= 1
        left = {mark for mark in marks(fault, targets) if self._newest[mark] == number}
        if left:
            self._apply(fault.end, still_hit(targets, left), f"mended at {self.elapsed:.1f}s")

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

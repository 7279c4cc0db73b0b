"""Faults: drawn as a plan before the run, applied at their times.

Each seed has faults of its own kinds, targets and rate (swarm testing): what is never drawn together hides less.
"""

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tests.simulation.model import Fault, Profile
from tests.simulation.world.transport import SimTransport

if TYPE_CHECKING:
    from tests.simulation.world.world import World

MEANS: tuple[float, ...] = (0.05, 0.3, 1.0, 3.0)
"""Seconds between two faults, on average; one is drawn for each seed."""
SHARE = 0.7
"""Probability that a seed has a kind, or a target."""


def draw(seed: int, seconds: float, profile: Profile) -> tuple[Fault, ...]:
    """Return the plan of a seed."""
    chance = random.Random(f"{seed}/faults")
    if not profile.kinds:
        return ()
    kinds = _some(chance, profile.kinds)
    targets = _some(chance, profile.targets)
    mean = chance.choice(profile.means)
    plan, at = [], chance.expovariate(1 / mean)
    while at < seconds:
        plan.append(Fault(round(at, 6), chance.choice(kinds), chance.choice(targets), round(chance.random(), 6)))
        at += chance.expovariate(1 / mean)
    return tuple(plan)


def _some(chance: random.Random, names: Sequence[str]) -> list[str]:
    chosen = [name for name in names if chance.random() < SHARE]
    return chosen or [chance.choice(names)]


Apply = Callable[["World", Fault], None]


def kill(world: "World", fault: Fault) -> None:
    """End a process with SIGKILL, by order: a supervisor does not count it against the budget."""
    world.kill_by_fault(fault.target)


def crash(world: "World", fault: Fault) -> None:
    """End a process as the out-of-memory killer does: it counts."""
    world.kill(fault.target)


def crash_all(world: "World", fault: Fault) -> None:
    """End the target and about half of the others at the same moment."""
    chance = world.random("faults/all")
    for name in list(world.mortal):
        if name == fault.target or chance.random() < 0.5:
            world.kill_by_fault(name)


def pause(world: "World", fault: Fault) -> None:
    """Stop a process for 0.1 to 6 seconds, as SIGSTOP does."""
    process = world.processes.get(fault.target)
    if process is not None:
        process.paused_until = max(process.paused_until, world.now + 0.1 + fault.value * 5.9)


def cut(world: "World", fault: Fault) -> None:
    """Break about half of the target's connections, in the middle of what they carry."""
    process = world.processes.get(fault.target)
    for end in list(process.ends if process else ()):
        if hasattr(end, "cut") and world.random("faults/cut").random() < 0.5:
            end.cut()


def half_open(world: "World", fault: Fault) -> None:
    """Lose all that half of the target's TCP connections carry, unheard, until both ends are reset: up to 8 seconds."""
    for end in _connections(world, fault, "halfopen"):
        if end.address.startswith("tcp:"):
            end.sever(world.now + fault.value * 8)


def slow_read(world: "World", fault: Fault) -> None:
    """Let the target read half of its connections slowly, a piece in up to 0.3 s, for up to 6 seconds."""
    chance = world.random("faults/pause")
    for end in _connections(world, fault, "slowread"):
        end.read_slowly(world.now + fault.value * 6, chance.uniform(0.01, 0.3))


def tear(world: "World", fault: Fault) -> None:
    """Reset half of the target's connections within the next piece that arrives: in the middle of a frame."""
    for end in _connections(world, fault, "torn"):
        end.torn = True


def _connections(world: "World", fault: Fault, kind: str) -> "list[SimTransport]":
    process, chance = world.processes.get(fault.target), world.random(f"faults/{kind}")
    ends = list(process.ends if process else ())
    return [end for end in ends if isinstance(end, SimTransport) and chance.random() < 0.5]


def one_way(world: "World", fault: Fault) -> None:
    """Close the way from the target to another process, or back, for up to 8 seconds."""
    others = [name for name in world.mortal if name != fault.target]
    if others:
        chance = world.random("faults/way")
        ends = [fault.target, chance.choice(others)]
        if chance.random() < 0.5:
            ends.reverse()
        world.network.close_way(ends[0], ends[1], world.now + fault.value * 8)


def clock(world: "World", fault: Fault) -> None:
    """Let the target's wall clock jump by up to a minute, back or forth, or stop for up to 10 seconds."""
    process = world.processes.get(fault.target)
    if process is None:
        return
    if fault.value < 0.3:
        process.clock.stop(world.now)
        world.at(fault.value * 33, None, lambda: process.clock.go_on(world.now))
    else:
        process.clock.wall += (fault.value - 0.65) * 170


KINDS: dict[str, Apply] = {
    "kill": kill,
    "crash": crash,
    "pause": pause,
    "cut": cut,
    "all": crash_all,
    "oneway": one_way,
    "halfopen": half_open,
    "slowread": slow_read,
    "torn": tear,
    "clock": clock,
}
"""Kinds of faults; a profile names those that may be drawn, and may add its own."""


def schedule(world: "World", plan: Sequence[Fault]) -> None:
    """Apply each fault of a plan at its time."""
    for fault in plan:
        world.at(fault.at, None, lambda fault=fault: _apply(world, fault))  # type: ignore[misc]


def _apply(world: "World", fault: Fault) -> None:
    world.happened(fault.target, f"fault {fault.kind} {fault.value:g}")
    KINDS[fault.kind](world, fault)

"""Conditions that a script can expect; each returns whether it holds now, and the actual state."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from protocols.messages.supervisor import ActorStatus
from protocols.process.texts import listed
from supervisor.chaos.stage import ChaosStage
from supervisor.tree.states import ChildState

NAMED = 20
"""Names that are listed where one does not exist."""


class _Seen(NamedTuple):
    holds: bool
    instead: str


Condition = Callable[[ChaosStage, tuple[str, ...]], Awaitable[_Seen]]


async def _pod(stage: ChaosStage, words: tuple[str, ...]) -> _Seen:
    name, wanted = words
    pod = await stage.pod(name)
    now = pod_words(pod)
    return _Seen(wanted in now, " ".join(now))


def pod_words(found: dict[str, Any]) -> list[str]:
    """Return every state of the grammar that is true of a pod."""
    if not found:
        return ["gone"]
    status = found.get("status", {})
    words = [str(status.get("phase", "Pending")).lower()]
    if any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in status.get("conditions", [])
    ):
        words.append("ready")
    if any(container.get("restartCount", 0) for container in status.get("containerStatuses", [])):
        words.append("restarted")
    return words


async def _device(stage: ChaosStage, words: tuple[str, ...]) -> _Seen:
    if len(words) == 2:
        return _driver_device(stage, *words)
    resource, id_, wanted = words
    rows = stage.devices()
    row = next((row for row in rows if (row.resource, row.device) == (resource, id_)), None)
    if row is None:
        return _missing("no such device", [f"{row.resource} {row.device}" for row in rows])
    now = [row.health.lower(), "held" if row.pod else "free"]
    return _Seen(wanted in now, " ".join(now))


def _driver_device(stage: ChaosStage, name: str, wanted: str) -> _Seen:
    devices = stage.driver_devices()
    if name not in devices:
        return _missing("no claim has it", sorted(devices))
    now = devices[name].health.lower()
    return _Seen(now == wanted, now)


def _missing(instead: str, names: list[str]) -> _Seen:
    return _Seen(False, f"{instead}; there are {listed(names, NAMED) or 'none'}")


async def _actor(stage: ChaosStage, words: tuple[str, ...]) -> _Seen:
    name, _ = words
    actors = await stage.actors()
    if (actor := actors.get(name)) is None:
        return _missing("no such actor", list(actors))
    return _Seen(_live(stage, actor), actor.state)


async def plane(stage: ChaosStage, words: tuple[str, ...]) -> _Seen:
    """Check that all actors are live and their replicas follow the current epoch of their owner.

    `settled` also requires the same position in the last heartbeats.
    """
    actors = await stage.actors()
    late = [name for name, status in actors.items() if not _live(stage, status)]
    if late:
        return _Seen(False, f"not live: {', '.join(late)}")
    behind = [f"{name}'s {stream}" for name, stream in behind_of(actors, words[0] == "settled")]
    return _Seen(not behind, f"behind: {', '.join(behind)}")


def behind_of(actors: dict[str, ActorStatus], exactly: bool) -> list[tuple[str, str]]:
    """Return (follower, stream) of each replica that is not synced with the current epoch of its owner."""
    beats = {name: status.beat for name, status in actors.items() if status.beat}
    at = {(name, own.stream): (beat.epoch, own.seq) for name, beat in beats.items() for own in beat.owns}
    behind = []
    for name, beat in beats.items():
        for follow in beat.follows:
            epoch, seq = at.get((follow.owner, follow.stream), (0, 0))
            if not follow.synced or epoch != follow.epoch or (exactly and seq != follow.seq):
                behind.append((name, follow.stream))
    return behind


def _live(stage: ChaosStage, found: ActorStatus) -> bool:
    return found.state == ChildState.LIVE and found.pid != stage.dead.get(found.instance)


CONDITIONS: dict[str, Condition] = {"pod": _pod, "device": _device, "actor": _actor, "plane": plane}

"""Change the number of API processes or nodes of a running plane."""

from protocols.messages.supervisor import ROOT_NAME, SCALE, STATUS, Empty, PlaneStatus, ScaleActor
from supervisor.base.errors import UsageError
from supervisor.base.groups import APISERVER, GROUPS, NODE, WATCHER
from supervisor.client.connection import Asking

SCALE_TIMEOUT_S = 60.0
FIRST_WATCHER_GROUP = f"{ROOT_NAME}-{WATCHER}"


async def scale_nodes(asking: Asking, count: int) -> None:
    """Order the supervisor of the first node, which runs the others."""
    names = asking.names()
    owner = ROOT_NAME if ROOT_NAME in names else f"{ROOT_NAME}-{NODE}"
    if owner not in names:
        raise UsageError("no node group runs below this root; start it with `python -m supervisor node`")
    await asking.call(owner, SCALE, ScaleActor(actor=NODE, count=count), Empty, timeout=SCALE_TIMEOUT_S)


async def scale_watchers(asking: Asking, count: int) -> None:
    """Scale the first watcher group to `count` processes minus those of other watcher lines of honcho."""
    first, *others = watcher_supervisors(asking.names())
    elsewhere = [actor for name in others for actor in await _api_processes(asking, name)]
    if count <= len(elsewhere):
        lines = f"{len(elsewhere)} run in other watcher lines of honcho"
        raise UsageError(f"{count} API processes are too few: {lines}; use {len(elsewhere) + 1} or more")
    request = ScaleActor(actor=WATCHER, count=count - len(elsewhere))
    await asking.call(first, SCALE, request, Empty, timeout=SCALE_TIMEOUT_S)


async def _api_processes(asking: Asking, name: str) -> list[str]:
    plane = await asking.call(name, STATUS, Empty(), PlaneStatus)
    return [actor.instance for actor in plane.actors if actor.instance.startswith(f"{APISERVER}-")]


def watcher_supervisors(names: list[str]) -> list[str]:
    """Return the supervisors with API processes, the first watcher group first. Raises UsageError if there are none."""
    others = {f"{ROOT_NAME}-{group}" for group in GROUPS if group != WATCHER}
    mine = sorted(set(names) - others, key=lambda name: (len(name), name) if name != FIRST_WATCHER_GROUP else (0, name))
    if not mine:
        raise UsageError("no watcher group runs below this root; start it with `python -m supervisor watcher`")
    return mine

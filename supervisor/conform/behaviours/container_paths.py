"""Several devices of a container do not share a path in it."""

from collections.abc import Iterable

from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import PLUGIN_CONTAINERS
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "Of two device nodes, or mounts, with one container_path the kubelet passes the first to the container, only."
SOURCE = PLUGIN_CONTAINERS
ADVICE = "Number container_path by the device, such as /dev/gpu0 and /dev/gpu1; only what is the same may be repeated."


async def check(plugin: PluginPeer) -> None:
    """Look at the answer for all devices in one container."""
    answers = await plugin.allocate_all()
    if not any(answer.devices or answer.mounts for answer in answers):
        raise NotApplicable("the answer has no device nodes and no mounts")
    for answer in answers:
        _apart((each.container_path, each.host_path) for each in answer.devices)
        _apart((each.container_path, each.host_path) for each in answer.mounts)


def _apart(paths: Iterable[tuple[str, str]]) -> None:
    known: dict[str, str] = {}
    for inside, outside in paths:
        if known.setdefault(inside, outside) != outside:
            raise Failed(f"{known[inside]} and {outside} are both {inside} in the container")

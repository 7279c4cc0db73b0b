"""PreStartContainer answers, before each start of a container."""

from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import API, CONSTANTS, ENDPOINT, MANAGER
from supervisor.conform.verdict import CallFailed, NotApplicable

PHASE = "calls"
RULE = (
    "If the options require it, PreStartContainer is called before each start, with the devices of the container in any"
    " order; an error, or 30 s without an answer, keeps the container from starting."
)
SOURCE = f"{API}; {CONSTANTS}; {ENDPOINT}; {MANAGER}"
ADVICE = (
    "Implement the call, make it repeatable, and look devices up one by one, not by their ids joined; require it only"
    " if it has something to do."
)


async def check(plugin: PluginPeer) -> None:
    """Allocate, then start, and restart with the devices in another order."""
    if not plugin.options.pre_start_required:
        raise NotApplicable("the options do not require it")
    ids = plugin.healthy()[:2]
    await plugin.allocate(ids)
    for start, order in (("first", ids), ("second", ids[::-1])):
        try:
            await plugin.pre_start(order)
        except CallFailed as error:
            raise CallFailed(error.status, f"{start} start, of {', '.join(order)}: {error}") from None

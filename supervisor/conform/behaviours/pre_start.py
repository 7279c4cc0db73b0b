"""PreStartContainer answers, before each start of a container."""

from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import API, ENDPOINT
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = (
    "If the options require it, PreStartContainer is called before each start; an error keeps the container"
    " from starting."
)
SOURCE = f"{API}; {ENDPOINT}"
ADVICE = "Implement the call, make it repeatable, and answer within 30 s; require it only if it has something to do."


async def check(plugin: PluginPeer) -> None:
    """Allocate, then start and restart."""
    if not plugin.options.pre_start_required:
        raise NotApplicable("the options do not require it")
    ids = plugin.healthy()[:2]
    await plugin.allocate(ids)
    for start in ("first", "second"):
        try:
            await plugin.pre_start(ids)
        except Failed as error:
            raise Failed(f"{start} start: {error}") from None

"""ListAndWatch sends the whole list at once, in a message that the kubelet takes."""

from supervisor.conform.program_stage import NotServing
from supervisor.conform.sources import API, DOCS
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed

PHASE, ORDER = "list", 0
RULE = (
    "ListAndWatch sends the list of all devices at its begin, and again whenever one changes; a message has at"
    " most 4 MiB."
)
SOURCE = f"{API}; {DOCS}"
ADVICE = (
    "Find the devices before Register, and send them before waiting for changes: until the list comes, the node has 0"
    " of the resource, and rejects pods that had some before a restart."
)


async def run(stage: Stage) -> None:
    """Wait for the lists of all resources."""
    try:
        plugins = await stage.plugins()
    except NotServing as error:
        if any(attempt.peer for attempt in stage.kubelet.attempts):
            raise Failed(error.why) from None
        raise
    for plugin in plugins:
        stage.show(plugin.lists.first if plugin.lists else None)
        if not plugin.devices:
            raise Failed(f"the list of {plugin.resource} is empty")
        if plugin.lists and plugin.lists.first and not plugin.lists.first.reply.size:
            raise Failed(f"the first list of {plugin.resource} is empty, its devices came in a later one")

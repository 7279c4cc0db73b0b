"""A plugin that was killed serves after it is started again."""

from supervisor.conform.sources import DOCS
from supervisor.conform.stage import Stage

PHASE = "restarts"
RULE = "A plugin may end at any moment, by SIGKILL too; its socket's file then stays, and the next start replaces it."
SOURCE = DOCS
ADVICE = "Remove the file of your own socket before you bind it: a socket that nobody listens to makes bind fail."


async def run(stage: Stage) -> None:
    """SIGKILL, and start again."""
    await stage.plugins()
    await stage.restart_program()
    for plugin in await stage.serve_started():
        await plugin.allocate(plugin.healthy()[:1])

"""A plugin that was killed in the middle of Allocate gives the device out after its restart."""

from supervisor.conform.caller import SENT_S, broken_off
from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import DOCS, MANAGER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import CallFailed, Failed

PHASE = "restarts"
RULE = "The pod of a failed Allocate is rejected; the device is free for another."
SOURCE = f"{DOCS}; {MANAGER}"
ADVICE = "Write no lock or state in Allocate that a killed process leaves behind, or clean it up at the start."


async def run(stage: Stage) -> None:
    """Kill during the call, early and late, start again, and allocate the same."""
    for sent in SENT_S:
        plugin = (await stage.plugins())[0]
        ids = plugin.healthy()[:1]
        await broken_off(plugin.allocate(ids), sent, stage.restart_program)
        await _allocates(await stage.served(plugin.name, started=True), ids)


async def _allocates(plugin: PluginPeer, ids: list[str]) -> None:
    if not set(ids) <= set(plugin.ids):
        raise Failed(f"{ids[0]} is no longer listed")
    try:
        await plugin.allocate(ids)
    except CallFailed as error:
        raise Failed(f"{ids[0]}, after the restart: {error}") from None

"""Allocate rejects a device that the plugin does not list."""

from supervisor.conform.caller import NO_ANSWER
from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import DOCS
from supervisor.conform.verdict import CallFailed, Failed

PHASE = "calls"
RULE = "Allocate fails if a device cannot be given out; the pod is then rejected instead of running without it."
SOURCE = DOCS
ADVICE = (
    "Compare devices_ids with the list and return an error, such as INVALID_ARGUMENT with the id; live on, since all"
    " other devices are lost with the process."
)
UNKNOWN = "nodeplane-no-such-device"


async def check(plugin: PluginPeer) -> None:
    """Ask for a device that was never listed, alone and beside one that was."""
    for ids in ([UNKNOWN], [*plugin.healthy()[:1], UNKNOWN]):
        try:
            await plugin.allocate(ids)
        except CallFailed as error:
            if error.status in NO_ANSWER:
                raise
        else:
            raise Failed(f"Allocate of {', '.join(ids)} was answered as if the device existed")
    await plugin.get_options()  # it must live on

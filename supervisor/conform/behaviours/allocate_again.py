"""Allocate answers again for the same device."""

from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import DOCS, MANAGER
from supervisor.conform.verdict import CallFailed, Failed

PHASE = "calls"
RULE = "No call says that a device is free again: a pod may be rejected or deleted, and the device goes to another."
SOURCE = f"{DOCS}; {MANAGER}"
ADVICE = "Do not count in the plugin what is allocated; the kubelet does."


async def check(plugin: PluginPeer) -> None:
    """Ask three times for one device."""
    id = plugin.healthy()[0]
    for number in ("first", "second", "third"):
        try:
            answers = await plugin.allocate([id])
        except CallFailed as error:
            raise Failed(f"{id}, the {number} time: {error}") from None
        if len(answers) != 1:
            raise Failed(f"{id}, the {number} time: {len(answers)} containers were answered")

"""ListAndWatch stays open, and silent while nothing changes; so does Register."""

import asyncio

from supervisor.conform.sources import API, MANAGER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed

PHASE = "list"
RULE = "The end of ListAndWatch means that the plugin is gone; each message costs the kubelet a checkpoint."
SOURCE = f"{API}; {MANAGER}"
ADVICE = (
    "Wait for a change of a device, or for the end of the call, after each list; do not return and do not poll"
    " by sending."
)
WATCHED_S, MOST = 1.0, 3


async def run(stage: Stage) -> None:
    """Count lists for a second."""
    plugins = await stage.plugins()
    registered = len(stage.kubelet.attempts)
    before = [plugin.lists.count if plugin.lists else 0 for plugin in plugins]
    await asyncio.sleep(WATCHED_S)
    if (more := len(stage.kubelet.attempts) - registered) > len(plugins):
        raise Failed(f"it registered {more} times within {WATCHED_S:g} s, without a new kubelet.sock")
    for plugin, count in zip(plugins, before, strict=True):
        if plugin.lists is None or plugin.lists.ended:
            raise Failed(f"ListAndWatch of {plugin.resource} ended: {plugin.lists.ended if plugin.lists else ''}")
        if (more := plugin.lists.count - count) > MOST:
            raise Failed(f"{plugin.resource} sent {more} lists within {WATCHED_S:g} s")

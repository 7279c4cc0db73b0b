"""Calls of ListAndWatch that are over take nothing of the plugin."""

import asyncio

from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import DOCS, MANAGER
from supervisor.conform.verdict import CallFailed, Failed

PHASE = "calls"
RULE = "Every restart of a kubelet ends a ListAndWatch and begins another; a plugin lives through many of them."
SOURCE = f"{DOCS}; {MANAGER}"
ADVICE = (
    "Return from ListAndWatch when its call is cancelled: a call that waits on for changes holds a thread, or"
    " goroutine, for ever, and the last thread of a server with few of them."
)
CALLS, LATE = 60, 3
"""Calls, and timeouts after which a plugin that looks for the end now and then must have noticed it."""


async def check(plugin: PluginPeer) -> None:
    """Open and close many lists, one after another."""
    for number in range(CALLS):
        try:
            await _open_and_close(plugin)
        except Failed:
            await asyncio.sleep(plugin.timeout * LATE)
            await _last_try(plugin, number)
            return


async def _open_and_close(plugin: PluginPeer) -> None:
    another = plugin.another()
    try:
        await another.first_list()
    finally:
        await another.close()


async def _last_try(plugin: PluginPeer, number: int) -> None:
    try:
        await _open_and_close(plugin)
    except Failed as error:
        text = f"after {number} calls of ListAndWatch that were opened and closed: {error}"
        raise CallFailed("DEADLINE_EXCEEDED", text) from None  # the plugin hangs: the next script begins with another

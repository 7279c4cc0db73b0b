"""Calls of ListAndWatch that are over take nothing of the plugin."""

import asyncio

from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import DOCS, MANAGER
from supervisor.conform.verdict import Failed

PHASE = "restarts"
RULE = "Every restart of a kubelet ends a ListAndWatch and begins another; a plugin lives through many of them."
SOURCE = f"{DOCS}; {MANAGER}"
ADVICE = (
    "Return from ListAndWatch when its call is cancelled: a call that waits on for changes holds a thread, or"
    " goroutine, for ever, and the last thread of a server with few of them."
)
CALLS, LATE = 60, 3
"""Calls, and timeouts after which a plugin that looks for the end now and then must have noticed it."""
OPEN_S = 0.03
"""Time that each call stays open: one that is closed at once never gets to wait for changes."""


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
        await asyncio.sleep(OPEN_S)
    finally:
        await another.close()


async def _last_try(plugin: PluginPeer, number: int) -> None:
    try:
        await _open_and_close(plugin)
    except Failed as error:
        raise Failed(f"after {number} calls of ListAndWatch that were opened and closed: {error}") from None

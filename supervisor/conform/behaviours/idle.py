"""The program needs no processor while nothing happens."""

import asyncio

from supervisor.conform.busy import check_idle
from supervisor.conform.sources import DOCS
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "A plugin waits for calls, changes and the kubelet; it must not take processor time from the pods of the node."
SOURCE = DOCS
ADVICE = "Leave the loop of ListAndWatch when its call ends: one that goes on with a closed channel or context spins."
SETTLE_S, OPEN_S = 0.5, 0.2
"""OPEN_S: a call that is closed at its first list may never get to the loop that waits for changes."""


async def run(stage: Stage) -> None:
    """Open lists, hang up, and watch its threads."""
    for plugin in await stage.plugins():
        another = plugin.another()
        try:
            await another.first_list()
            await asyncio.sleep(OPEN_S)
        except Failed as error:
            raise NotApplicable(f"it needs a second ListAndWatch: {error}") from None
        finally:
            await another.close()
    await asyncio.sleep(SETTLE_S)
    if not stage.program.runs:
        raise NotApplicable(f"when a ListAndWatch ended, {stage.program.end}; list-again is about that")
    await check_idle(stage.program, "after a ListAndWatch had ended")

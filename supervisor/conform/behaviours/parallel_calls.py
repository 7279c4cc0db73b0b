"""Calls at the same time are answered."""

import asyncio

from supervisor.conform.peer import PluginPeer
from supervisor.conform.sources import MANAGER
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "Pods start in parallel: calls for one arrive while those of another run."
SOURCE = MANAGER
ADVICE = "Serve with several threads, and hold a lock only for as long as a call needs it."
CALLS = 16


async def check(plugin: PluginPeer) -> None:
    """Allocate in many calls at once."""
    ids = plugin.healthy()
    singles = {id: await plugin.repeatable(id) for id in ids[:CALLS]}
    asked = [ids[number % len(ids)] for number in range(CALLS)]
    answers = await asyncio.gather(*(plugin.allocate([id]) for id in asked))
    for id, answer in zip(asked, answers, strict=True):
        if singles[id] is not None and answer != [singles[id]]:
            raise Failed(f"the answer for {id} among {CALLS} calls at once differs from that of a single call")

"""A plugin that was killed in the middle of Allocate gives the device out after its restart."""

import asyncio
from contextlib import suppress

from protocols.process.tasks import awaited
from supervisor.conform.sources import DOCS, MANAGER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import CallFailed, Failed

PHASE = "restarts"
RULE = "The pod of a failed Allocate is rejected; the device is free for another."
SOURCE = f"{DOCS}; {MANAGER}"
ADVICE = "Write no lock or state in Allocate that a killed process leaves behind, or clean it up at the start."
SENT_S = 0.01
"""From the call until the kill: the request is sent by then, the answer may be."""


async def run(stage: Stage) -> None:
    """Kill during the call, start again, and allocate the same."""
    plugin = (await stage.plugins())[0]
    ids = plugin.healthy()[:1]
    call = awaited(plugin.allocate(ids))
    await asyncio.sleep(SENT_S)
    await stage.restart_program()
    with suppress(CallFailed):
        await call
    again = next(each for each in await stage.serve_started() if each.resource == plugin.resource)
    if not set(ids) <= set(again.ids):
        raise Failed(f"{ids[0]} is no longer listed")
    try:
        await again.allocate(ids)
    except CallFailed as error:
        raise Failed(f"{ids[0]}, after the restart: {error}") from None

"""The plugin tries again after a rejected Register, with a pause."""

import asyncio
import itertools

from supervisor.conform.sources import SERVER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed

PHASE = "restarts"
RULE = (
    "Register may fail, such as by a deadline while the kubelet starts; only the plugin can repeat it, and the kubelet"
    " starts for some time."
)
SOURCE = SERVER
ADVICE = (
    "Repeat Register with a back-off, or end with an error so that the container is started again; do not only log it,"
    " and do not repeat it without a pause."
)
REJECTING_S, PAUSE_S, MOST = 2.0, 0.03, 10
"""Seconds in which calls are rejected, the least time between two of a resource, and how many may follow sooner."""


async def run(stage: Stage) -> None:
    """Restart the kubelet, which then rejects one call of each resource, and once more, to reject all for a while."""
    await stage.plugins()
    await stage.restart_rejecting()
    await stage.restart_rejecting(until=lambda: _repeats(stage))


async def _repeats(stage: Stage) -> None:
    """Count the calls of some seconds. Raises Failed."""
    await stage.until(lambda: bool(stage.kubelet.attempts), stage.timeout)
    await asyncio.sleep(REJECTING_S)
    for name in stage.names:
        times = [attempt.at for attempt in stage.kubelet.attempts if attempt.name == name]
        soon = sum(later - earlier < PAUSE_S for earlier, later in itertools.pairwise(times))
        if soon > MOST:
            raise Failed(f"it called Register {len(times)} times within {REJECTING_S:g} s, and each call was rejected")

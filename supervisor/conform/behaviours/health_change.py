"""A device that breaks, and one that recovers, are reported in a new list."""

from collections.abc import Set

from supervisor.conform.sources import API, DOCS
from supervisor.conform.stage import Device, Stage
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "Whenever the health of a device changes, ListAndWatch sends the list of all devices, the broken one included."
SOURCE = f"{API}; {DOCS}"
ADVICE = "Wake ListAndWatch at each change in both directions, and list an unhealthy device instead of leaving it out."


async def run(stage: Stage) -> None:
    """Let the user break and mend devices; those that were broken before may stay so."""
    if not stage.break_with:
        raise NotApplicable("it needs --break and --mend, commands that break and mend a device")
    await stage.plugins()
    listed, healthy = set(stage.listed()), stage.healthy()
    if not healthy:
        raise NotApplicable("no device is Healthy before")
    breaks, mends = (lambda: bool(healthy & stage.unhealthy())), (lambda: stage.healthy() >= healthy)
    await stage.reported_after(stage.break_with, "list with one more Unhealthy device", breaks)
    _check_listed(stage, listed)
    if stage.mend_with:
        await stage.reported_after(stage.mend_with, "list in which it is Healthy", mends)
        _check_listed(stage, listed)


def _check_listed(stage: Stage, before: Set[Device]) -> None:
    if set(stage.listed()) != before:
        raise Failed("other devices are listed than before")

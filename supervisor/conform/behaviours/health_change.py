"""A device that breaks, and one that recovers, are reported in a new list."""

from collections.abc import Callable, Set

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
    await _after(stage, stage.break_with, "an Unhealthy device", lambda: bool(healthy & stage.unhealthy()))
    _check_listed(stage, listed)
    if stage.mend_with:
        await _after(stage, stage.mend_with, "all of them Healthy again", lambda: stage.healthy() >= healthy)
        _check_listed(stage, listed)


async def _after(stage: Stage, script: str, what: str, holds: Callable[[], bool]) -> None:
    await stage.shell(script)
    if not await stage.until(holds, stage.timeout):
        raise Failed(f"no list with {what} came within {stage.timeout:g} s after {script!r}")


def _check_listed(stage: Stage, before: Set[Device]) -> None:
    if set(stage.listed()) != before:
        raise Failed("other devices are listed than before")

"""A device that breaks, and one that recovers, are reported in a new list."""

from collections.abc import Callable, Sequence

from protocols.messages.devices import HEALTHY
from supervisor.conform.peer import Lists
from supervisor.conform.sources import API, DOCS
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = "Whenever the health of a device changes, ListAndWatch sends the list of all devices, the broken one included."
SOURCE = f"{API}; {DOCS}"
ADVICE = "Wake ListAndWatch at each change in both directions, and list an unhealthy device instead of leaving it out."


async def run(stage: Stage) -> None:
    """Let the user break and mend devices."""
    if not stage.break_with:
        raise NotApplicable("it needs --break and --mend, commands that break and mend a device")
    lists = [plugin.lists for plugin in await stage.plugins() if plugin.lists]
    before = [ids(each) for each in lists]
    await _after(stage, stage.break_with, "an Unhealthy device", lambda: not is_whole(lists))
    if stage.mend_with:
        await _after(stage, stage.mend_with, "Healthy devices only", lambda: is_whole(lists))
    if before != [ids(each) for each in lists]:
        raise Failed("other devices are listed than before")


async def _after(stage: Stage, script: str, what: str, holds: Callable[[], bool]) -> None:
    await stage.shell(script)
    if not await stage.until(holds, stage.timeout):
        raise Failed(f"no list with {what} came within {stage.timeout:g} s after {script!r}")


def ids(lists: Lists) -> list[str]:
    return sorted(device.ID for device in lists.newest.devices) if lists.newest else []


def is_whole(lists: Sequence[Lists]) -> bool:
    return all(device.health == HEALTHY for each in lists if each.newest for device in each.newest.devices)

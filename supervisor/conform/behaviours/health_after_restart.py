"""The health of devices is known to a kubelet that restarts, whenever it changed."""

import asyncio
from collections.abc import Set

from supervisor.conform.sources import API, MANAGER
from supervisor.conform.stage import Device, Stage
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "restarts"
RULE = (
    "A new kubelet knows of no device: the first list says how each is now, and changes go to the ListAndWatch that is"
    " open."
)
SOURCE = f"{API}; {MANAGER}"
ADVICE = (
    "Begin each ListAndWatch with the devices as they are now, wake all calls that are open at a change, not one of"
    " them that may be over, and hold no lock while nobody takes the change."
)
AWAY_S = 0.5


async def run(stage: Stage) -> None:
    """Break and mend devices after a restart, before one, and while the kubelet is away."""
    if not stage.break_with or not stage.mend_with:
        raise NotApplicable("it needs --break and --mend, commands that break and mend a device")
    await stage.plugins()
    if not (before := stage.healthy()):
        raise NotApplicable("no device is Healthy before")
    await _restart(stage)
    whole = True
    try:
        for whole, script in ((False, stage.break_with), (True, stage.mend_with), (False, stage.break_with)):
            await stage.shell(script)
            await _becomes(stage, before, whole, f"a device that {'recovered' if whole else 'broke'} after a restart")
        await _restart(stage)
        await _becomes(stage, before, False, "a device that broke before a restart")
        await stage.kubelet.stop()
        await asyncio.sleep(AWAY_S)
    finally:
        if not whole:
            await stage.shell(stage.mend_with)
    await asyncio.sleep(AWAY_S)
    await stage.kubelet.start()
    await _returns(stage)
    await _becomes(stage, before, True, "a device that recovered without a kubelet")


async def _restart(stage: Stage) -> None:
    await stage.restart_kubelet()
    await _returns(stage)


async def _returns(stage: Stage) -> None:
    try:
        await stage.returns()
    except Failed as error:
        raise Failed(f"after a restart of the kubelet: {error}") from None


async def _becomes(stage: Stage, before: Set[Device], whole: bool, what: str) -> None:
    if not await stage.until(lambda: (stage.healthy() >= before) == whole, stage.timeout):
        raise Failed(f"{what} was not reported within {stage.timeout:g} s")

"""The health of devices as it changes."""

import asyncio
from collections.abc import Set

from supervisor.conform.scripts import run
from supervisor.conform.stage import Device, Stage
from supervisor.conform.verdict import Failed, NotApplicable


@run
async def health_change(stage: Stage) -> None:
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
    listed = set(stage.listed())
    if changed := before ^ listed:
        resource, id = min(changed)
        raise Failed(
            f"{id} of {resource} is {'listed, and was not before' if changed & listed else 'no longer listed'}"
        )


FLAPS = 5


@run
async def health_flaps(stage: Stage) -> None:
    """Let the user break and mend a device without a pause; it ends broken, and once more mended."""
    if not stage.break_with or not stage.mend_with:
        raise NotApplicable("it needs --break and --mend, commands that break and mend a device")
    await stage.plugins()
    healthy = stage.healthy()
    if not healthy:
        raise NotApplicable("no device is Healthy before")
    await _flap(stage, stage.break_with, stage.mend_with)
    last = f"list with the device Unhealthy after {FLAPS + 1} breaks and {FLAPS} mends"
    await stage.reported_after(stage.break_with, last, lambda: bool(healthy & stage.unhealthy()))
    await _flap(stage, stage.mend_with, stage.break_with)
    last = f"list with the device Healthy after {FLAPS} breaks and {FLAPS + 1} mends"
    await stage.reported_after(stage.mend_with, last, lambda: stage.healthy() >= healthy)


async def _flap(stage: Stage, *scripts: str) -> None:
    for script in scripts * FLAPS:
        await stage.shell(script)


AWAY_S = 0.5


@run
async def health_after_restart(stage: Stage) -> None:
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

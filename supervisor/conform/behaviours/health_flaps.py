"""A device whose health changes again and again is reported as it is at last."""

from supervisor.conform.sources import API, DOCS
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import NotApplicable

PHASE = "calls"
RULE = "Each list replaces the one before, so the last one after a change of health must say how the device is now."
SOURCE = f"{API}; {DOCS}"
ADVICE = "Compare what you have sent with what is, after each wait and also for changes that come while you send."
FLAPS = 5


async def run(stage: Stage) -> None:
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

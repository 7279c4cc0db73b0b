"""GetDevicePluginOptions has the options that Register has."""

from supervisor.conform.sources import SERVER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable

PHASE, ORDER = "registration", 5
RULE = "Only the answer of GetDevicePluginOptions counts; the kubelet ignores the options of the Register call."
SOURCE = SERVER
ADVICE = "Answer GetDevicePluginOptions with the options that the Register call has."
FLAGS = ("pre_start_required", "get_preferred_allocation_available")


async def run(stage: Stage) -> None:
    """Compare the options of the call with the answer."""
    attempt = await stage.first_attempt()
    if attempt.peer is None:
        raise NotApplicable(f"Register was rejected before: {attempt.fault}")
    for flag in FLAGS:
        if getattr(attempt.request.options, flag) and not getattr(attempt.peer.options, flag):
            raise Failed(f"Register has {flag}, GetDevicePluginOptions has not")

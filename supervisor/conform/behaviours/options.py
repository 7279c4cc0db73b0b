"""GetDevicePluginOptions is answered, with the options that Register has."""

from supervisor.conform.caller import NO_ANSWER
from supervisor.conform.sources import SERVER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable

PHASE, ORDER = "registration", 5
RULE = (
    "Only the answer of GetDevicePluginOptions counts, the kubelet ignores the options of the Register call; if it is"
    " an error, Register fails with it."
)
SOURCE = SERVER
ADVICE = (
    "Implement GetDevicePluginOptions, and answer with the options that the Register call has; without any, with an"
    " empty message."
)
FLAGS = ("pre_start_required", "get_preferred_allocation_available")


async def run(stage: Stage) -> None:
    """Compare the options of the call with the answer."""
    attempt = await stage.first_attempt()
    if attempt.options_status and attempt.options_status not in NO_ANSWER:
        raise Failed(attempt.options_fault)
    if attempt.peer is None:
        raise NotApplicable(f"Register was rejected before: {attempt.fault}")
    for flag in FLAGS:
        if getattr(attempt.request.options, flag) and not getattr(attempt.peer.options, flag):
            raise Failed(f"Register has {flag}, GetDevicePluginOptions has not")

"""GetDevicePluginOptions answers, always the same, and with all that Register promises."""

from supervisor.conform.sources import SERVER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed

PHASE, ORDER = "registration", 5
RULE = "Only the answer of GetDevicePluginOptions counts; the kubelet ignores the options of the Register call."
SOURCE = SERVER
ADVICE = "Answer GetDevicePluginOptions with the options that the Register call has."
FLAGS = ("pre_start_required", "get_preferred_allocation_available")


async def run(stage: Stage) -> None:
    """Compare the options of the call with two answers."""
    attempt = await stage.first_attempt()
    for plugin in await stage.plugins():
        first = plugin.options
        stage.show(plugin.options_exchange)
        if await plugin.get_options() != first:
            raise Failed("the second answer differs from the first")
        for flag in FLAGS:
            promised = attempt.resource == plugin.resource and getattr(attempt.request.options, flag)
            if promised and not getattr(first, flag):
                raise Failed(f"Register has {flag}, GetDevicePluginOptions has not")

"""The plugin answers GetDevicePluginOptions while its Register call waits."""

from supervisor.conform.caller import NO_ANSWER
from supervisor.conform.sources import DOCS, SERVER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed, NotApplicable

PHASE, ORDER = "registration", 4
RULE = "A plugin serves before it registers: the kubelet dials it and gets its options before it answers Register."
SOURCE = f"{DOCS}; {SERVER}"
ADVICE = "Start the gRPC server first and call Register from another thread or goroutine than the one that serves."


async def run(stage: Stage) -> None:
    """Look at what became of the first call."""
    attempt = await stage.first_attempt()
    if attempt.socket_fault:
        raise Failed(attempt.socket_fault)
    if attempt.options_status in NO_ANSWER:
        raise Failed(attempt.options_fault)
    if attempt.fault and not attempt.options_fault:
        raise NotApplicable(f"Register was rejected before: {attempt.fault}")

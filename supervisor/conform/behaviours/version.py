"""Register names the version v1beta1."""

from protocols.wire.plugin_names import version_fault
from supervisor.conform.sources import HANDLER, SERVER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed

PHASE, ORDER = "registration", 1
RULE = "version is exactly v1beta1, or supported_versions of GetInfo has it; the kubelet rejects every other text."
SOURCE = f"{SERVER}; {HANDLER}"
ADVICE = "Set RegisterRequest.version to the constant of the API, v1beta1."


async def run(stage: Stage) -> None:
    """Look at the first call."""
    if fault := version_fault((await stage.first_attempt()).request.version):
        raise Failed(fault)

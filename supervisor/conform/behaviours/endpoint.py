"""Register names a socket that exists, by its file name."""

from supervisor.conform.sources import API, DOCS
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed

PHASE, ORDER = "registration", 3
RULE = "endpoint is the name of the plugin's socket in the directory of kubelet.sock, without a path."
SOURCE = f"{API}; {DOCS}"
ADVICE = "Bind the socket in device-plugins/ before Register, and pass its base name, such as vendor-gpu.sock."


async def run(stage: Stage) -> None:
    """Look at the first call, and at the directory at that moment."""
    attempt = await stage.first_attempt()
    if fault := attempt.endpoint_fault or attempt.socket_fault:
        raise Failed(fault)

"""The program registers: it calls Register on kubelet.sock, or has a socket that a kubelet finds."""

from supervisor.conform.program_stage import NotServing
from supervisor.conform.sources import DOCS, HANDLER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed

PHASE, ORDER = "registration", 0
RULE = (
    "A plugin registers itself with the kubelet through DIRECTORY/device-plugins/kubelet.sock, or the kubelet finds its"
    " socket of pluginregistration.Registration in DIRECTORY/plugins_registry/."
)
SOURCE = f"{DOCS}; {HANDLER}"
ADVICE = (
    "Dial kubelet.sock in the directory that NODEPLANE_KUBELET_DIR or conform's --kubelet-dir names, and call"
    " v1beta1.Registration/Register; what the program printed may say why it did not."
)


async def run(stage: Stage) -> None:
    """Wait for the first call, whatever it holds."""
    try:
        await stage.first_attempt()
    except NotServing as error:
        raise Failed(error.why) from None

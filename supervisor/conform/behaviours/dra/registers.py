"""The program serves a registration socket in plugins_registry/, which answers GetInfo."""

from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.program_stage import NotServing
from supervisor.conform.sources import PLUGIN_WATCHER
from supervisor.conform.verdict import Failed

PHASE, ORDER = "registration", 0
RULE = "The kubelet finds a driver by a socket below DIRECTORY/plugins_registry/, without a dot at its begin."
SOURCE = PLUGIN_WATCHER
ADVICE = (
    "Bind a socket in plugins_registry/ of the directory that NODEPLANE_KUBELET_DIR or conform's --kubelet-dir names,"
    " and serve pluginregistration.Registration on it; what the program printed may say why it did not."
)


async def run(stage: DriverStage) -> None:
    """Wait for the first socket."""
    try:
        attempt = await stage.first_attempt()
    except NotServing as error:
        raise Failed(error.why) from None
    if attempt.info_fault:
        raise Failed(f"{attempt.socket.name}: {attempt.info_fault}")

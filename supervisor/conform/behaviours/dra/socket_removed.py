"""The registration socket is removed when the program ends."""

from protocols.process.sockets import is_socket
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import PLUGIN_WATCHER
from supervisor.conform.verdict import Failed

PHASE, ORDER = "end", 0
RULE = "The kubelet drops a driver when its socket in plugins_registry/ is gone; one that stays is dialled for ever."
SOURCE = PLUGIN_WATCHER
ADVICE = "Remove the socket in plugins_registry/ at SIGTERM, before the service's, and at the start those of the dead."


async def run(stage: DriverStage) -> None:
    """SIGTERM, and look at the directory."""
    await stage.drivers()
    mine = {attempt.socket for attempt in stage.kubelet.attempts if attempt.peer}
    ended = await stage.program.terminate(stage.timeout)
    stage.soil()
    if ended and (left := sorted(path.name for path in mine if is_socket(path))):
        raise Failed(f"plugins_registry/{left[0]} is still there after SIGTERM")

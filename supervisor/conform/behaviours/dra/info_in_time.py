"""GetInfo is answered within a second."""

from protocols.wire import pluginregistration_v1_pb2 as registration
from protocols.wire.plugins import GET_INFO
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.registry import Registrar
from supervisor.conform.sources import REGISTRATION_CALLS
from supervisor.conform.verdict import CallFailed, Failed, NotApplicable

PHASE, ORDER = "registration", 1
RULE = "The kubelet waits for GetInfo for one second, and tries again with back-off, up to two minutes."
SOURCE = REGISTRATION_CALLS
ADVICE = "Answer from what is known at the start, and look for devices elsewhere: GetInfo names the driver only."
MOST_S, TIMES = 1.0, 3


async def run(stage: DriverStage) -> None:
    """Look at the first answer, and if it was late at some more: the fastest counts."""
    attempt = await stage.first_attempt()
    if attempt.info_fault:
        raise NotApplicable(attempt.info_fault)
    first = attempt.exchanges[0]
    if first is not None and first.record.seconds <= MOST_S:
        return
    registrar = Registrar(attempt.socket.name, attempt.socket, stage.recorder, stage.timeout)
    try:
        fastest = min([await _seconds(registrar) for _ in range(TIMES)])
    except CallFailed as error:
        raise Failed(str(error)) from None
    finally:
        await registrar.close()
    if fastest > MOST_S:
        raise Failed(f"GetInfo was answered after {fastest:.1f} s")


async def _seconds(registrar: Registrar) -> float:
    await registrar.call(GET_INFO, registration.InfoRequest())
    return registrar.last.record.seconds if registrar.last else 0.0

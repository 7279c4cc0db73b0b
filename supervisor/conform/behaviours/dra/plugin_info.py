"""GetInfo names a DRA driver, and an endpoint that is served."""

from supervisor.conform.dra.driver_kubelet import endpoint_fault, name_fault, type_fault
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import DRA_PLUGINS, REGISTRATION, REGISTRATION_API
from supervisor.conform.verdict import Failed

PHASE, ORDER = "registration", 1
RULE = (
    "type is DRAPlugin, name the driver's: a DNS name of at most 63 characters; endpoint is the absolute path of the"
    " service's socket, which may come after the registration: until then calls fail, and are repeated."
)
SOURCE = f"{REGISTRATION_API}; {REGISTRATION}; {DRA_PLUGINS}"
ADVICE = "Bind a socket such as plugins/DRIVER/dra.sock, name it as the host sees it, and serve there before long."


async def run(stage: DriverStage) -> None:
    """Look at the first answer, and for the service."""
    attempt = await stage.first_attempt()
    for fault in (type_fault(attempt.info), name_fault(attempt.info), endpoint_fault(attempt)):
        if fault:
            raise Failed(fault)
    if not attempt.info_fault:
        await stage.bound(attempt.endpoint)

"""GetInfo names a DRA driver, and an endpoint that exists."""

from supervisor.conform.dra.driver_kubelet import endpoint_fault, name_fault, type_fault
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import REGISTRATION, REGISTRATION_API
from supervisor.conform.verdict import Failed

PHASE, ORDER = "registration", 1
RULE = (
    "type is DRAPlugin, name the driver's: a DNS name of at most 63 characters; endpoint is the absolute path of the"
    " service's socket, which exists."
)
SOURCE = f"{REGISTRATION_API}; {REGISTRATION}"
ADVICE = "Bind the service's socket first, such as plugins/DRIVER/dra.sock, then the one in plugins_registry/."


async def run(stage: DriverStage) -> None:
    """Look at the first answer."""
    attempt = await stage.first_attempt()
    for fault in (type_fault(attempt.info), name_fault(attempt.info), endpoint_fault(attempt)):
        if fault:
            raise Failed(fault)

"""GetInfo names the services that the driver has, the newest first."""

from supervisor.conform.dra.driver_kubelet import versions_fault
from supervisor.conform.dra.driver_stage import DriverStage
from supervisor.conform.sources import REGISTRATION
from supervisor.conform.verdict import Failed

PHASE, ORDER = "registration", 2
RULE = (
    "supported_versions names services: v1.DRAPlugin and v1beta1.DRAPlugin; a kubelet uses the first of the driver's"
    " list that it knows."
)
SOURCE = REGISTRATION
ADVICE = "Name v1.DRAPlugin before v1beta1.DRAPlugin, and not v1 or v1beta1 alone, nor the service's name on the wire."


async def run(stage: DriverStage) -> None:
    """Look at the first answer."""
    info = (await stage.first_attempt()).info
    if fault := versions_fault(info):
        raise Failed(fault)
    known = [name for name in info.supported_versions if name.endswith(".DRAPlugin")]
    if "v1.DRAPlugin" in known[1:]:
        raise Failed(f"supported_versions has {known[0]} before v1.DRAPlugin: the older one is used")

"""Register names an extended resource."""

from protocols.wire.plugin_names import resource_fault
from supervisor.conform.sources import DOCS, SERVER
from supervisor.conform.stage import Stage
from supervisor.conform.verdict import Failed

PHASE, ORDER = "registration", 2
RULE = (
    "resource_name is DOMAIN/NAME outside of kubernetes.io, with a domain in lower case that does not begin with"
    " requests., and a name of at most 63 characters."
)
SOURCE = f"{DOCS}; {SERVER}"
ADVICE = "Register a name such as vendor.example/gpu; pods ask for it by exactly this text in resources.limits."


async def run(stage: Stage) -> None:
    """Look at the first call."""
    if fault := resource_fault((await stage.first_attempt()).request.resource_name):
        raise Failed(fault)

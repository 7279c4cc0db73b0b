"""CDI devices of the answer to Allocate have fully qualified names, in annotations as well."""

from supervisor.conform.cdi import QUALIFIED, names_of
from supervisor.conform.peer import PluginPeer
from supervisor.conform.scripts import several
from supervisor.conform.sources import CDI
from supervisor.conform.verdict import Failed, NotApplicable

PHASE = "calls"
RULE = (
    "The name of a CDI device is VENDOR/CLASS=NAME, as its specification file declares it; the value of an annotation"
    " cdi.k8s.io/ANY has such names, with commas."
)
SOURCE = f"{CDI}; its pkg/cdi/annotations.go"
ADVICE = "Send the qualified name, such as vendor.example/gpu=0; the runtime starts no container with another one."


async def check(plugin: PluginPeer) -> None:
    """Look at the answers for single devices, and at that for all."""
    names = [name for answer in await plugin.all_answers() for name in names_of(answer)]
    if not names:
        raise NotApplicable("the answer has no CDI devices")
    if faults := [f"{name!r} is not VENDOR/CLASS=NAME" for name in names if not QUALIFIED.fullmatch(name)]:
        raise Failed(several(faults))

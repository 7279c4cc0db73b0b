"""The program calls the pod resources API."""

from supervisor.conform.agent.agent_stage import AgentStage
from supervisor.conform.program_stage import NotServing
from supervisor.conform.sources import POD_RESOURCES_DOCS
from supervisor.conform.verdict import Failed

PHASE, ORDER = "calls", 0
RULE = "The kubelet serves v1.PodResourcesLister on DIRECTORY/pod-resources/kubelet.sock."
SOURCE = POD_RESOURCES_DOCS
ADVICE = (
    "Dial the socket that NODEPLANE_POD_RESOURCES names, or pod-resources/kubelet.sock below NODEPLANE_KUBELET_DIR,"
    " and call List or ListAndWatch; what the program printed may say why it did not."
)


async def run(stage: AgentStage) -> None:
    """Wait for the first call."""
    try:
        await stage.peers()
    except NotServing as error:
        raise Failed(error.why) from None

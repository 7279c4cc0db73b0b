"""The runtime's pods, from its events and from its list."""

from actors.adopt.identity import Sandbox
from protocols.bus import Bus
from protocols.messages import cri
from protocols.messages.cri import ContainerEvent, CriCall, CriReply
from protocols.wire import cri_pb2 as pb

LIST_S = 5.0


def of_event(event: ContainerEvent) -> Sandbox | None:
    """The sandbox an event is about; None where the runtime does not say."""
    try:
        status = pb.ContainerEventResponse.FromString(event.payload).pod_sandbox_status
    except Exception:  # whatever a runtime sends: an event is a hint to look, and no more
        return None
    return _sandbox(status) if status.id and status.metadata.uid else None


async def list_all(bus: Bus) -> list[Sandbox]:
    """Raises BusError while the runtime is away."""
    request = CriCall("ListPodSandbox", pb.ListPodSandboxRequest().SerializeToString())
    reply = await bus.call(cri.OWNER, cri.CALL, request, CriReply, timeout=LIST_S, idempotent=True)
    return [_sandbox(item) for item in pb.ListPodSandboxResponse.FromString(reply.response).items]


def _sandbox(shown: pb.PodSandbox | pb.PodSandboxStatus) -> Sandbox:
    return Sandbox(
        id=shown.id,
        uid=shown.metadata.uid,
        namespace=shown.metadata.namespace,
        name=shown.metadata.name,
        created_ns=shown.created_at,
        ready=shown.state == pb.SANDBOX_READY,
    )

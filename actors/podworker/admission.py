"""What a pod asks of the device manager, and what its refusal means. Pure."""

from actors.podworker.limits import milli
from actors.podworker.types import ContainerSpec, PodSpec, Waiting
from protocols.bus import BusError, FailedPrecondition, InvalidArgument
from protocols.messages.devices import AdmitPod, ContainerRequest

REASON = "UnexpectedAdmissionError"


def extended_resources(container: ContainerSpec) -> dict[str, int]:
    """Whole-number resources with a domain of their own, from the limits."""
    limits = (container.raw.get("resources") or {}).get("limits") or {}
    return {name: count for name, value in limits.items() if is_extended(name) and (count := milli(value) // 1000) > 0}


def is_extended(resource: str) -> bool:
    domain, slash, _ = resource.partition("/")
    native = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return bool(slash) and not native


def admit_request(spec: PodSpec, running: bool) -> AdmitPod:
    containers = tuple(
        ContainerRequest(name=c.name, kind=c.kind, resources=extended_resources(c)) for c in spec.containers
    )
    return AdmitPod(uid=spec.uid, namespace=spec.namespace, name=spec.name, containers=containers, running=running)


def refusal(error: BusError) -> Waiting | None:
    """Reason and message of the Failed pod; None when the error is to be waited out instead."""
    if not isinstance(error, (FailedPrecondition, InvalidArgument)):
        return None
    text = str(error)
    if not text.startswith("Allocate failed due to"):
        text = f"Allocate failed due to {text}, which is unexpected"
    return Waiting(error.details.get("reason") or REASON, f"Pod was rejected: {text}")

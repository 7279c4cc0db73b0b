"""The devices, CPUs and memory picked for each container of a pod. Pure."""

from actors.devices.cpu.pool import pod_need
from actors.devices.machine.placer import InitResources
from protocols.lifecycle.devices.plan import DevicePlan, steps
from protocols.messages.devices import AdmitPod


class PodPlan(DevicePlan):
    """The plan of a node with exclusive CPUs and memory."""

    def __init__(self) -> None:
        super().__init__()
        self.init_resources = InitResources()
        """CPUs and memory of init containers, for later containers."""


def pod_steps(pod: AdmitPod) -> dict[str, int]:
    """Return what the pod needs of each resource at its peak."""
    needs: dict[str, list[tuple[str, int]]] = {}
    for container, resource, count in steps(pod):
        needs.setdefault(resource, []).append((container.kind, count))
    return {resource: pod_need(needs[resource]) for resource in sorted(needs)}

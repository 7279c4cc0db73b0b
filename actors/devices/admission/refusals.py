"""The words in which pods are refused, kubelet's own. Pure."""

from collections.abc import Iterable

from actors.devices.admission.plan import steps
from actors.devices.errors import AdmissionRefused
from protocols.messages.devices import AdmitPod, ContainerAllocation, PodAllocation


def refusal(why: str) -> AdmissionRefused:
    return AdmissionRefused(f"Allocate failed due to {why}, which is unexpected")


def check_unchanged(pod: AdmitPod, known: PodAllocation) -> None:
    """Raise AdmissionRefused when a pod that has devices now asks for another number of them."""
    held = {container.name: ids_by_resource(container) for container in known.containers}
    for container, resource, count in steps(pod):
        had = len(held.get(container.name, {}).get(resource, ()))
        if had and had != count:
            raise refusal(
                f'pod "{pod.uid}" container "{container.name}" changed request for resource "{resource}" '
                f"from {had} to {count}"
            )


def check_healthy(resource: str, held: Iterable[str], healthy: Iterable[str]) -> None:
    """What a pod that has devices must show before it may start again after the machine; raises AdmissionRefused."""
    well = set(healthy)
    if not well:
        raise refusal(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
    if not set(held) <= well:
        raise refusal(
            f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
        )


def ids_by_resource(container: ContainerAllocation) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for device in container.devices:
        found.setdefault(device.resource, []).append(device.id)
    return found

"""Extended resources of a pod that DeviceClasses back: the claim that the scheduler would create for them."""

from collections.abc import Iterable, Iterator, Mapping

from protocols.dra.allocator.claims import Claim, Request, Want
from protocols.dra.types import DeviceClass
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import Object, namespace_of
from protocols.kube.quantity import NANO, parse_quantity

IMPLICIT = "deviceclass.resource.kubernetes.io/"


def extended_claim(pod: Object, classes: Iterable[DeviceClass]) -> Claim | None:
    """Return a request for each container and resource, or None if no class backs a resource of the pod.

    Init containers that end are left out: they use devices of those that follow.
    """
    backing = {IMPLICIT + each.name: each.name for each in classes}
    backing |= {each.extended_resource: each.name for each in classes if each.extended_resource}
    requests = tuple(_requests(pod, backing))
    return Claim(f"{namespace_of(pod)}/<extended-resources>", "", requests, (), ()) if requests else None


def extended_claim_name(pod: Object) -> str:
    """Return the name of the claim that was created for the pod's extended resources, or ""."""
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return str(status.get("resourceClaimName") or "")


def _requests(pod: Object, backing: Mapping[str, str]) -> Iterator[Request]:
    spec = pod.get("spec") or {}
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    for container in (*sidecars, *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name in sorted(asked.keys() & backing.keys()):
            if count := _count(asked[name]):
                request = f"{name} of container {container.get('name')}"
                yield Request(request, (Want(request, backing[name], count=count),))


def _count(quantity: str) -> int:
    try:
        return parse_quantity(quantity).nanos // NANO
    except QuantityInvalid:
        return 0

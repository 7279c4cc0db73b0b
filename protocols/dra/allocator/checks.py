"""Whether a claim can be read at all, before any node is looked at. Pure; upstream's words."""

from collections.abc import Iterable, Mapping

from protocols.dra.allocator.claims import ALL, EXACT_COUNT, Claim, Want
from protocols.dra.allocator.errors import AllocationFault
from protocols.dra.types import DeviceClass


def check(claim: Claim, classes: Mapping[str, DeviceClass]) -> None:
    """Raises AllocationFault."""
    for request in claim.requests:
        for want in request.wants:
            _check_want(claim, want, classes)
    for at, constraint in enumerate(claim.constraints):
        if not constraint.match and not constraint.distinct:
            raise AllocationFault(
                f"claim {claim.key}, constraint #{at}: empty constraint (unsupported constraint type?)"
            )


def _check_want(claim: Claim, want: Want, classes: Mapping[str, DeviceClass]) -> None:
    where = f"claim {claim.key}, request {want.name}"
    if not want.class_name:
        raise AllocationFault(f"{where}: missing device class name (unsupported request type?)")
    if want.class_name not in classes:
        raise AllocationFault(f"{where}: could not retrieve device class {want.class_name}: not found")
    _check_selectors(f"class {want.class_name}", classes[want.class_name].selectors)
    _check_selectors(where, want.selectors)
    if want.mode not in (ALL, EXACT_COUNT):
        raise AllocationFault(f"{where}: unsupported count mode {want.mode}")
    if want.capacity:
        raise AllocationFault(f"{where}: has capacity requests, but the DRAConsumableCapacity feature is not supported")


def _check_selectors(where: str, selectors: Iterable[str]) -> None:
    for at, expression in enumerate(selectors):
        if not expression:
            raise AllocationFault(f"{where}, selector #{at}: CEL expression empty (unsupported selector type?)")


def missing_class(claim: Claim, classes: Mapping[str, DeviceClass]) -> str:
    """What a pod waits for when a class is not there: all alternatives count, also those that would not be taken."""
    wants = (want for request in claim.requests for want in request.wants)
    lost = next((want for want in wants if want.class_name and want.class_name not in classes), None)
    return f"request {lost.name}: device class {lost.class_name} does not exist" if lost else ""

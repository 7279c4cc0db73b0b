"""Validate allocatedResourcesStatus (KEP-4680) and drop it while its gate is disabled. Messages equal upstream's."""

from collections.abc import Callable, Iterator
from typing import Any

from protocols.kinds.check.causes import Cause, forbidden, invalid, required, too_long, unsupported
from protocols.kinds.check.table import Causes, once
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text

FIELD = "allocatedResourcesStatus"
GATE, MESSAGE_GATE = "ResourceHealthStatus", "ResourceHealthStatusMessage"
STATES = ("Healthy", "Unhealthy", "Unknown")
MESSAGE_LIMIT = 1024
CLAIM = "claim:"
STATUSES = (("containerStatuses", "containers"), ("initContainerStatuses", "initContainers"))
EPHEMERAL = "ephemeralContainerStatuses"
NO_REQUEST = "must match one of the container's resource requests"
NO_CLAIM = (
    "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or "
    "'claim:<claimName>' if request is empty"
)
NO_POD_CLAIM = (
    "must match one of the pod's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>'"
)


def health_causes(pod: Object) -> list[Cause]:
    """Check allocatedResourcesStatus of containers and of the pod against the resources that they request."""
    causes = []
    for field, containers in STATUSES:
        specs = {text(container, "name"): container for container in items(pod, "spec", containers)}
        for index, status in enumerate(items(pod, "status", field)):
            names = _allowed(specs.get(text(status, "name")))
            causes += _entries(f"status.{field}[{index}].{FIELD}", status, names)
    for index, status in enumerate(items(pod, "status", EPHEMERAL)):
        if status.get(FIELD):
            causes.append(
                forbidden(f"status.{EPHEMERAL}[{index}].{FIELD}", "must not be specified in container status")
            )
    claims = {text(claim, "name") for claim in items(pod, "spec", "resourceClaims")}
    return causes + _entries(f"status.{FIELD}", at(pod, "status"), lambda name: _pod_entry_fault(name, claims))


NameCheck = Callable[[str], str]
"""Returns the fault of an entry's name, or an empty string."""


def _allowed(container: Object | None) -> NameCheck:
    """Return the check for a container's entries; containers absent from the spec are not checked."""
    if container is None:
        return lambda name: ""
    requests = at(container, "resources", "requests") or {}
    claims = {_claim_name(claim) for claim in items(container, "resources", "claims")}

    def check(name: str) -> str:
        if name.startswith(CLAIM):
            return "" if name in claims or _of_whole_claim(name) in claims else NO_CLAIM
        return "" if name in requests else NO_REQUEST

    return check


def _of_whole_claim(name: str) -> str:
    """Return `claim:NAME` of `claim:NAME/REQUEST`: KEP-4680 names the request in any case, upstream rejects that."""
    claim, _, request = name.partition("/")
    return claim if request and "/" not in request else ""


def _claim_name(claim: Object) -> str:
    request = text(claim, "request")
    return f"{CLAIM}{text(claim, 'name')}/{request}" if request else f"{CLAIM}{text(claim, 'name')}"


def _pod_entry_fault(name: str, claims: set[str]) -> str:
    known = name.startswith(CLAIM) and name.removeprefix(CLAIM).partition("/")[0] in claims
    return "" if known else NO_POD_CLAIM


def _entries(path: str, owner: Any, check: NameCheck) -> list[Cause]:
    causes: Causes = []
    is_new = once()
    for index, entry in enumerate(items(owner, FIELD)):
        at_entry, name = f"{path}[{index}]", text(entry, "name")
        if wrong := check(name):
            causes.append(invalid(f"{at_entry}.name", name, wrong))
        is_new(f"{at_entry}.name", name, causes)
        causes += _devices(f"{at_entry}.resources", entry)
    return causes


def _devices(path: str, entry: Object) -> list[Cause]:
    causes: Causes = []
    is_new = once()
    for index, device in enumerate(items(entry, "resources")):
        at_device, resource_id = f"{path}[{index}]", text(device, "resourceID")
        if device.get("health") not in STATES:
            causes.append(unsupported(f"{at_device}.health", text(device, "health"), STATES))
        causes += _message(f"{at_device}.message", device.get("message"))
        if not resource_id:
            causes.append(required(f"{at_device}.resourceID", ""))
        else:
            is_new(f"{at_device}.resourceID", resource_id, causes)
    return causes


def _message(path: str, message: Any) -> list[Cause]:
    if message is None:
        return []
    if message == "":
        return [required(path, "must be non-empty if specified")]
    if len(str(message).encode(errors="replace")) > MESSAGE_LIMIT:
        return [too_long(path, MESSAGE_LIMIT)]
    return []


def drop_disabled(status: Object, old: Any, gate: Callable[[str], bool]) -> None:
    """Drop fields of disabled gates, unless the stored object has them."""
    if not gate(GATE) and not any(owner.get(FIELD) for owner in _owners(old)):
        for owner in _owners(status):
            owner.pop(FIELD, None)
    if not gate(MESSAGE_GATE) and not any("message" in device for device in _device_entries(old)):
        for device in _device_entries(status):
            device.pop("message", None)


def _owners(status: Any) -> Iterator[Object]:
    """Yield the pod status and the container statuses."""
    if isinstance(status, dict):
        yield status
    for field in (*(field for field, _ in STATUSES), EPHEMERAL):
        yield from items(status, field)


def _device_entries(status: Any) -> Iterator[Object]:
    for owner in _owners(status):
        for entry in items(owner, FIELD):
            yield from items(entry, "resources")

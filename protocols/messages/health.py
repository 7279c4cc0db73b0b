"""Messages of `health`: allocatedResourcesStatus (KEP-4680) of every pod that holds devices, and what a pod holds."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

import msgspec

from protocols.messages.devices import HEALTHY, ContainerAllocation, DeviceHealth, PodAllocation, PreparedClaim

OWNER = "health"
NAMED = 4
"""Devices in a text."""

RESOURCE_STATUS = "resource-status"
"""State stream, key = pod uid, value = PodResourceStatus."""


class ResourceHealth(msgspec.Struct, frozen=True, omit_defaults=True):
    """Health of one device in a pod's status; field names are those of KEP-4680's ResourceHealth."""

    resourceID: str
    health: str
    message: str = ""


class ResourceStatus(msgspec.Struct, frozen=True):
    """JSON form = one element of allocatedResourcesStatus (KEP-4680)."""

    name: str
    resources: tuple[ResourceHealth, ...]
    """Sorted by resourceID."""


class PodResourceStatus(msgspec.Struct, frozen=True):
    """Device status of one pod, ready to be put into its container statuses."""

    uid: str
    containers: dict[str, tuple[ResourceStatus, ...]]
    """By container name; extended resources by name, then claims in the container's order."""
    pod: tuple[ResourceStatus, ...] = ()
    """Status of claims that no container names."""
    reported_ns: int = 0
    """Arrival of the oldest health report that is new in this status; 0 = no report is."""


def health_text(status: PodResourceStatus | None) -> str:
    """Return the devices of a pod that are not Healthy, such as `gpu-0 Unhealthy`; else `Healthy`. For its trace."""
    entries = (entry for statuses in (*status.containers.values(), status.pod) for entry in statuses) if status else ()
    sick = [resource for entry in entries for resource in entry.resources if resource.health != HEALTHY]
    return ", ".join(f"{health.resourceID} {health.health}" for health in sick[:NAMED]) or HEALTHY


CLAIM = "claim:"
MAX_MESSAGE_BYTES = 1024
"""Longest message of a device's health in the API (KEP-4680)."""
ELLIPSIS = "..."


class HeldResource(msgspec.Struct, frozen=True):
    """Devices that a container holds under one name of allocatedResourcesStatus."""

    name: str
    """An extended resource's name, or `claim:NAME` or `claim:NAME/REQUEST`."""
    ids: tuple[str, ...]
    """Sorted: device ids of the plugin, or DRIVER/POOL/DEVICE."""


class HeldContainer(msgspec.Struct, frozen=True):
    """Devices that one container holds."""

    name: str
    resources: tuple[HeldResource, ...]
    """Extended resources by name, then claims in the order of the container."""
    init: bool = False
    """It is one of spec.initContainers."""


class PodHeld(msgspec.Struct, frozen=True):
    """Devices that a pod holds, whatever their health; false if none."""

    containers: tuple[HeldContainer, ...] = ()
    pod: tuple[HeldResource, ...] = ()
    """Claims that no container names."""

    def __bool__(self) -> bool:
        return bool(self.containers or self.pod)

    def field_path(self, container: str) -> str:
        """Return the `involvedObject.fieldPath` of a container that holds devices; "" for the pod itself."""
        if not container:
            return ""
        init = any(held.init for held in self.containers if held.name == container)
        return f"spec.{'initContainers' if init else 'containers'}{{{container}}}"


def health_key(name: str, resource_id: str) -> str:
    """Return the key of a resource's health in the streams `health` and `dra_health`."""
    return resource_id if name.startswith(CLAIM) else f"{name} {resource_id}"


def may_be_drivers(name: str, resource_id: str) -> bool:
    """Return True if the device is a DRA driver's, or could be: a DeviceClass may provide an extended resource."""
    return name.startswith(CLAIM) or resource_id.count("/") > 1


def report_of(health: Mapping[str, DeviceHealth], name: str, resource_id: str) -> DeviceHealth | None:
    """Return the report about a device from all reports by `health_key`; a device plugin's comes first."""
    report = health.get(health_key(name, resource_id))
    return health.get(resource_id) if report is None and may_be_drivers(name, resource_id) else report


def truncate_message(message: str) -> str:
    """Return at most MAX_MESSAGE_BYTES of UTF-8, never split within a character."""
    raw = message.encode(errors="replace")
    if len(raw) <= MAX_MESSAGE_BYTES:
        return raw.decode()
    return raw[: MAX_MESSAGE_BYTES - len(ELLIPSIS)].decode(errors="ignore") + ELLIPSIS


def held_by(allocation: PodAllocation, initializing: Collection[str] = (), *, by_request: bool = True) -> PodHeld:
    """Return what a pod's status shows; of the plain init containers only those that have yet to complete.

    With `by_request`, devices of a claim are named by their request where it is known (KEP-4680), also if the container
    names the whole claim; else as the container names it, as in kubelet.
    """
    shown = (c for c in allocation.containers if c.kind != "init" or c.name in initializing)
    held = ((c, _of_container(c, by_request)) for c in shown)
    containers = (HeldContainer(c.name, resources, c.kind != "app") for c, resources in held if resources)
    return PodHeld(tuple(containers), tuple(_of_claims(allocation.claims, by_request)))


def _of_container(container: ContainerAllocation, by_request: bool) -> tuple[HeldResource, ...]:
    by_name: dict[str, set[str]] = defaultdict(set)
    for device in container.devices:
        by_name[device.resource].add(device.id)
    for claim in container.claims:
        for request, resource in claim.resources.items():
            by_name[resource].update(_ids(claim, request))
    extended = (HeldResource(name, tuple(sorted(ids))) for name, ids in sorted(by_name.items()) if ids)
    return (*extended, *_of_claims(container.claims, by_request))


def _of_claims(claims: tuple[PreparedClaim, ...], by_request: bool) -> Iterator[HeldResource]:
    """Shared devices of one request stand once; a request that got none is not shown."""
    seen: set[str] = set()
    for claim in claims:
        for name in _names(claim) if by_request else claim.names:
            ids = tuple(sorted(set(_ids(claim, name.partition("/")[2]))))
            if ids and name not in seen:
                seen.add(name)
                yield HeldResource(CLAIM + name, ids)


def _names(claim: PreparedClaim) -> Iterator[str]:
    """Yield NAME/REQUEST of each request that has devices instead of NAME, unless a device's request is unknown."""
    requests = dict.fromkeys(r.partition("/")[0] for device in claim.devices for r in device.requests)
    known = all(device.requests for device in claim.devices)
    for name in claim.names:
        if "/" in name or not known:
            yield name
        else:
            yield from (f"{name}/{request}" for request in requests)


def _ids(claim: PreparedClaim, request: str) -> Iterator[str]:
    request = request.partition("/")[0]
    for device in claim.devices:
        if not request or not device.requests or request in {r.partition("/")[0] for r in device.requests}:
            yield device.id

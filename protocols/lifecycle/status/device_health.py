"""Field allocatedResourcesStatus: health of the devices of a container or pod. Pure."""

from collections.abc import Iterator
from enum import Enum
from typing import Final, Literal

import msgspec

from protocols.kinds import views
from protocols.kube.jsons import read_json
from protocols.kube.meta import Object
from protocols.kube.pods import FINISHED
from protocols.lifecycle.pods.types import INIT, PodSpec
from protocols.messages.devices import UNKNOWN
from protocols.messages.health import HeldContainer, HeldResource, PodHeld, ResourceHealth, ResourceStatus

HEALTH: Final = "allocatedResourcesStatus"
Field = Literal["containerStatuses", "initContainerStatuses"]
FIELDS: tuple[tuple[Field, bool], ...] = (("containerStatuses", False), ("initContainerStatuses", True))
"""Lists of a status, and True for that of the init containers."""


Shown = views.PodStatus | views.ContainerStatus
"""A status that may show the health of devices."""


class Retention(Enum):
    """Entries of the previous status that stay beside those that health reports."""

    NOTHING = 0
    """None: the pod runs and health knows all its devices."""
    UNREPORTED = 1
    """Entries that health does not report, until this process has admitted the pod: devices may have been freed."""
    KNOWN = 2
    """Also the previous health of devices that are now Unknown: health has not synced, or not reported an ended pod."""


def health_entries(
    reported: tuple[ResourceStatus, ...], known: Shown, retention: Retention
) -> list[views.ResourceStatus]:
    """Return the entries. `known`: status that showed entries last."""
    entries: list[views.ResourceStatus] = read_json(msgspec.json.encode(reported))
    if retention is Retention.NOTHING:
        return entries
    shown = {entry.get("name"): entry for entry in known.get(HEALTH) or ()}
    merged = [_retained(entry, shown.pop(entry["name"], {}), retention) for entry in entries]
    return [*merged, *shown.values()]


def _retained(entry: views.ResourceStatus, shown: views.ResourceStatus, retention: Retention) -> views.ResourceStatus:
    before = {device.get("resourceID"): device for device in shown.get("resources") or ()}
    devices = []
    for device in entry["resources"]:
        old = before.pop(device["resourceID"], None)
        forgotten = retention is Retention.KNOWN and device["health"] == UNKNOWN
        devices.append(old if old is not None and forgotten else device)
    return {**entry, "resources": sorted([*devices, *before.values()], key=_id)}


def _id(device: views.ResourceHealth) -> str:
    return str(device.get("resourceID"))


def unknown(held: tuple[HeldResource, ...]) -> tuple[ResourceStatus, ...]:
    """Return entries with health Unknown for devices without a report."""
    return tuple(
        ResourceStatus(resource.name, tuple(ResourceHealth(one, UNKNOWN) for one in resource.ids)) for resource in held
    )


def held_in(status: views.PodStatus) -> PodHeld:
    """Return the devices in a status: all that is known of them after a restart of this process."""
    containers = [
        HeldContainer(str(one.get("name")), held, init)
        for field, init in FIELDS
        for one in status.get(field) or ()
        if (held := _resources(one))
    ]
    return PodHeld(tuple(containers), _resources(status))


def _resources(status: Shown) -> tuple[HeldResource, ...]:
    return tuple(
        HeldResource(str(entry.get("name")), tuple(sorted(_id(device) for device in entry.get("resources") or ())))
        for entry in status.get(HEALTH) or ()
        if entry.get("resources")
    )


def merged(one: PodHeld, other: PodHeld) -> PodHeld:
    """Return `one`, completed by what only `other` has."""
    more = {container.name: container for container in other.containers}
    containers = [
        HeldContainer(c.name, _both(c.resources, more.pop(c.name, c).resources), c.init) for c in one.containers
    ]
    return PodHeld((*containers, *more.values()), _both(one.pod, other.pod))


def covers(shown: PodHeld, held: PodHeld) -> bool:
    """Return True if `shown` has every device of `held`."""
    return _devices(held) <= _devices(shown)


def _devices(held: PodHeld) -> set[tuple[str, str, str]]:
    scopes = [*((container.name, container.resources) for container in held.containers), ("", held.pod)]
    return {
        (scope, resource.name, one) for scope, resources in scopes for resource in resources for one in resource.ids
    }


def _both(one: tuple[HeldResource, ...], other: tuple[HeldResource, ...]) -> tuple[HeldResource, ...]:
    names = {resource.name for resource in one}
    return (*one, *(resource for resource in other if resource.name not in names))


def initializing(spec: PodSpec, status: views.PodStatus) -> tuple[str, ...]:
    """Return the plain init containers that have yet to complete; none once the pod has ended.

    Only a completed one is ready.
    """
    if status.get("phase") in FINISHED:
        return ()
    ready = {one.get("name") for one in status.get("initContainerStatuses") or () if one.get("ready")}
    return tuple(container.name for container in spec.inits if container.kind == INIT and container.name not in ready)


def reported_health(status: views.PodStatus) -> Object:
    """Return all device health in a status, by container."""
    reported = {f"{field} {one.get('name')}": one[HEALTH] for field, one in _containers(status) if one.get(HEALTH)}
    return {**reported, **({"": status[HEALTH]} if status.get(HEALTH) else {})}


def without_health(status: views.PodStatus) -> views.PodStatus:
    """Return a copy of the status without allocatedResourcesStatus."""
    bare = status.copy()
    bare.pop(HEALTH, None)
    for field, _ in FIELDS:
        if field in bare:
            bare[field] = [one.copy() for one in bare[field] or ()]
            for container in bare[field]:
                container.pop(HEALTH, None)
    return bare


def _containers(status: views.PodStatus) -> Iterator[tuple[Field, views.ContainerStatus]]:
    for field, _ in FIELDS:
        for one in status.get(field) or ():
            yield field, one

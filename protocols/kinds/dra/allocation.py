"""Validate the status of a ResourceClaim: allocation, consumers and device status."""

import ipaddress
import re
from typing import Any

from protocols.dra.pods import MAX_CONSUMERS
from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, too_many
from protocols.kinds.check.metadata import conditions
from protocols.kinds.check.selectors import node_selector
from protocols.kinds.check.table import Causes, Check, Ordered, Struct, causes_of, each, one_of, together
from protocols.kinds.check.values import longest
from protocols.kinds.dra.names import PLACE
from protocols.kinds.dra.requests import request_names, request_reference, request_references
from protocols.kinds.dra.selectors import opaque, parameters
from protocols.kinds.dra.slices import bindings, drop_binding
from protocols.kinds.dra.values import default_tolerations, tolerations
from protocols.kube.jsons import same_json
from protocols.kube.meta import Object
from protocols.kube.objects import at, mapping, rows

RESULTS, CONFIGS, CONDITIONS, IPS = 32, 64, 8, 16
INTERFACE, HARDWARE = 256, 128
UUID = re.compile(r"(?i:urn:uuid:)?[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32}", re.ASCII)
UUID_LENGTH = 36
NORMAL_UUID = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal"
    " characters"
)
ADDRESS_TEXT = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
LATE = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"


def _identity(row: Object) -> tuple[Any, ...]:
    return (row.get("driver"), row.get("pool"), row.get("device"), row.get("shareID"))


def default_results(status: Object) -> None:
    """Set the defaults of tolerations in allocation results."""
    for result in rows(at(status, "allocation", "devices", "results")):
        default_tolerations(result)


def drop_deallocated(status: Object, before: Object) -> None:
    """Remove the status of devices that were allocated and no longer are."""
    gone = _allocated(before) - _allocated(status)
    if gone and "devices" in status:
        status["devices"] = [row for row in rows(status["devices"]) if _identity(row) not in gone]
        if not status["devices"]:
            del status["devices"]


def drop_late(status: Object, before: Object) -> None:
    """Remove what binding conditions add to an allocation, unless it is stored."""
    allocation, stored = mapping(status.get("allocation")), mapping(before.get("allocation"))
    drop_binding(rows(at(allocation, "devices", "results")), rows(at(stored, "devices", "results")))
    if not stored.get("allocationTimestamp"):
        allocation.pop("allocationTimestamp", None)


def drop_shares(status: Object, before: Object) -> None:
    """Remove shares from an allocation and from the status of devices, unless some are stored."""
    if any(row.get("shareID") for row in rows(at(before, "allocation", "devices", "results"))):
        return
    for row in (*rows(at(status, "allocation", "devices", "results")), *rows(status.get("devices"))):
        row.pop("shareID", None)
        row.pop("consumedCapacity", None)


def _allocated(status: Object) -> set[tuple[Any, ...]]:
    return set(map(_identity, rows(at(status, "allocation", "devices", "results"))))


def status_causes(new: Object, old: Object) -> list[Cause]:
    """Check a write of a claim's status; an allocation can be set and removed, not changed."""
    status, before = mapping(new.get("status")), mapping(old.get("status"))
    allocation = status.get("allocation")
    causes: list[Cause] = []
    if isinstance(allocation, dict):
        if before.get("allocation") and not same_json(before["allocation"], allocation):
            causes.append(invalid("status.allocation", allocation, "field is immutable"))
        elif not before.get("allocation"):
            names = request_names(mapping(at(new, "spec", "devices")))
            _allocation(names)("status.allocation", allocation, causes)
    causes += _consumers_causes(status, before, bool(at(new, "metadata", "deletionTimestamp")))
    held = _allocated(status)

    def device(path: str, value: Object, causes: Causes) -> None:
        _device(path, value, _identity(value) in held, causes)

    each(device, limit=RESULTS)("status.devices", status.get("devices") or [], causes)
    seen = set()
    few = rows(status.get("devices"))
    for index, row in enumerate(few if len(few) <= RESULTS else ()):
        if (mine := _identity(row)) in seen:
            causes.append(duplicate(f"status.devices[{index}]", key_of(row)))
        seen.add(mine)
    return causes


def _allocation(names: set[str]) -> Check:
    """Return the check of an allocation to the requests of these names."""
    result = together(
        Ordered("request driver pool device", request=request_reference(names), **PLACE, shareID=share_id),
        bindings,
        Ordered(tolerations=tolerations),
    )
    config = Ordered(
        "source opaque",
        source=one_of("FromClaim", "FromClass", empty=True),
        requests=request_references(names),
        opaque=opaque,
    )
    devices = Ordered(results=each(result, limit=RESULTS), config=each(config, limit=CONFIGS))
    return Ordered(devices=devices, nodeSelector=node_selector)


_CONSUMERS = each(Struct("resource name uid"), limit=MAX_CONSUMERS, key=lambda consumer: consumer.get("uid"))


def _consumers_causes(status: Object, before: Object, ending: bool) -> list[Cause]:
    path, consumers = "status.reservedFor", status.get("reservedFor")

    causes = causes_of(_CONSUMERS, path, consumers or [])
    if not rows(consumers):
        return causes
    if not mapping(status.get("allocation")):
        causes.append(forbidden(path, "may not be specified when `allocated` is not set"))
    known = {row.get("uid") for row in rows(before.get("reservedFor"))}
    if ending and any(row.get("uid") not in known for row in rows(consumers)):
        causes.append(forbidden(path, LATE))
    return causes


def _network_address(path: str, text: str, causes: Causes) -> None:
    try:
        network = ipaddress.ip_interface(text)
    except ValueError:
        network = None
    if network is None or "/" not in text or str(network) != text:
        causes.append(invalid(path, text, ADDRESS_TEXT))


def _conditions(path: str, values: list[Object], causes: Causes) -> None:
    if len(values) > CONDITIONS:
        causes.append(too_many(path, len(values), CONDITIONS))
    else:
        conditions(path, values, causes)


_DEVICE = Ordered(
    "driver pool device",
    **PLACE,
    conditions=_conditions,
    data=parameters,
    networkData=Ordered(
        interfaceName=longest(INTERFACE),
        hardwareAddress=longest(HARDWARE),
        ips=each(_network_address, limit=IPS, key=str),
    ),
)


def _device(path: str, row: Object, is_allocated: bool, causes: Causes) -> None:
    if row.get("shareID") is not None:
        share_id(f"{path}.shareID", row["shareID"], causes)
    if not is_allocated:
        causes.append(invalid(path, key_of(row), "must be an allocated device in the claim"))
    _DEVICE(path, row, causes)


def key_of(row: Object) -> Object:
    """Return the key of a device status as upstream shows it."""
    return {name: row.get(name[0].lower() + name[1:]) or "" for name in ("Driver", "Pool", "Device", "ShareID")}


def share_id(path: str, text: str, causes: Causes) -> None:
    """Check the id of a share: a UUID as upstream writes it."""
    if not UUID.fullmatch(text):
        fault = "format" if len(text) == UUID_LENGTH else f"length: {len(text)}"
        causes.append(invalid(path, text, f"error validating uid: invalid UUID {fault}"))
    elif len(text) != UUID_LENGTH or text != text.lower():
        causes.append(invalid(path, text, NORMAL_UUID))

"""Validate the status of a ResourceClaim: allocation, consumers and device status."""

import ipaddress
import re
from typing import Any

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, required, too_long, too_many, unsupported
from protocols.kinds.check.metadata import conditions
from protocols.kinds.check.table import causes_of
from protocols.kinds.dra.names import driver_causes, each, label_causes, pool_causes, rows, table
from protocols.kinds.dra.requests import reference_causes, references_causes
from protocols.kinds.dra.selectors import object_causes, opaque_causes
from protocols.kinds.dra.slices import binding_causes, drop_binding, selector_causes
from protocols.kinds.dra.values import default_tolerations, tolerations_causes
from protocols.kube.meta import Object
from protocols.kube.objects import at

RESULTS, CONFIGS, CONSUMERS, CONDITIONS, IPS = 32, 64, 256, 8, 16
INTERFACE, HARDWARE = 256, 128
SOURCES = ("FromClaim", "FromClass")
UUID = re.compile(r"(?i:urn:uuid:)?[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|[0-9a-fA-F]{32}", re.ASCII)
UUID_LENGTH = 36
NORMAL_UUID = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal"
    " characters"
)
LATE = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"


def identity(row: Object) -> tuple[Any, ...]:
    return (row.get("driver"), row.get("pool"), row.get("device"), row.get("shareID"))


def default_results(status: Object) -> None:
    for result in rows(at(status, "allocation", "devices", "results")):
        default_tolerations(result)


def drop_deallocated(status: Object, before: Object) -> None:
    """Remove the status of devices that were allocated and no longer are."""
    gone = _allocated(before) - _allocated(status)
    if gone and "devices" in status:
        status["devices"] = [row for row in rows(status["devices"]) if identity(row) not in gone]
        if not status["devices"]:
            del status["devices"]


def drop_late(status: Object, before: Object) -> None:
    """Remove what binding conditions add to an allocation, unless it is stored."""
    allocation, stored = table(status.get("allocation")), table(before.get("allocation"))
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
    return set(map(identity, rows(at(status, "allocation", "devices", "results"))))


def status_causes(new: Object, old: Object) -> list[Cause]:
    status, before = table(new.get("status")), table(old.get("status"))
    allocation = status.get("allocation")
    causes: list[Cause] = []
    if isinstance(allocation, dict):
        if before.get("allocation") and before["allocation"] != allocation:
            causes.append(invalid("status.allocation", allocation, "field is immutable"))
        elif not before.get("allocation"):
            causes += _allocation_causes("status.allocation", allocation, _request_names(new))
    causes += _consumers_causes(status, before, bool(at(new, "metadata", "deletionTimestamp")))
    held = _allocated(status)

    def device(path: str, value: Any) -> list[Cause]:
        return _device_causes(path, value, identity_of(value) in held)

    devices = status.get("devices")
    causes += each("status.devices", devices, RESULTS, device)
    given = rows(devices) if len(rows(devices)) <= RESULTS else []
    return causes + [
        duplicate(f"status.devices[{at}]", key_of(row))
        for at, row in enumerate(given)
        if any(identity(row) == identity(earlier) for earlier in given[:at])
    ]


def identity_of(row: Any) -> tuple[Any, ...]:
    return identity(table(row))


def _request_names(claim: Object) -> set[str]:
    found: set[str] = set()
    for request in rows(at(claim, "spec", "devices", "requests")):
        name = request.get("name") or ""
        found |= {name} | {f"{name}/{sub.get('name')}" for sub in rows(request.get("firstAvailable"))}
    return found


def _allocation_causes(path: str, allocation: Object, names: set[str]) -> list[Cause]:
    devices = table(allocation.get("devices"))

    def result(at: str, value: Any) -> list[Cause]:
        held = table(value)
        causes = reference_causes(f"{at}.request", held.get("request"), names)
        causes += driver_causes(f"{at}.driver", held.get("driver") or "")
        causes += pool_causes(f"{at}.pool", held.get("pool") or "")
        causes += label_causes(f"{at}.device", held.get("device") or "")
        causes += share_causes(f"{at}.shareID", held.get("shareID")) + binding_causes(at, held)
        return causes + tolerations_causes(f"{at}.tolerations", held.get("tolerations"))

    def config(at: str, value: Any) -> list[Cause]:
        held = table(value)
        source = held.get("source") or ""
        causes = [] if source in SOURCES else [unsupported(f"{at}.source", source, SOURCES)]
        causes += references_causes(f"{at}.requests", held.get("requests"), names)
        return causes + opaque_causes(at, value)

    causes = each(f"{path}.devices.results", devices.get("results"), RESULTS, result)
    causes += each(f"{path}.devices.config", devices.get("config"), CONFIGS, config)
    return causes + selector_causes(f"{path}.nodeSelector", allocation.get("nodeSelector"))


def _consumers_causes(status: Object, before: Object, ending: bool) -> list[Cause]:
    path, consumers = "status.reservedFor", status.get("reservedFor")

    def check(at: str, value: Any) -> list[Cause]:
        return [required(f"{at}.{name}") for name in ("resource", "name", "uid") if not table(value).get(name)]

    causes = each(path, consumers, CONSUMERS, check, lambda value: table(value).get("uid"))
    if not rows(consumers):
        return causes
    if not table(status.get("allocation")):
        causes.append(forbidden(path, "may not be specified when `allocated` is not set"))
    known = {row.get("uid") for row in rows(before.get("reservedFor"))}
    if ending and any(row.get("uid") not in known for row in rows(consumers)):
        causes.append(forbidden(path, LATE))
    return causes


def _device_causes(path: str, value: Any, allocated: bool) -> list[Cause]:
    row = table(value)
    causes = share_causes(f"{path}.shareID", row.get("shareID"))
    causes += [] if allocated else [invalid(path, key_of(row), "must be an allocated device in the claim")]
    causes += driver_causes(f"{path}.driver", row.get("driver") or "")
    causes += pool_causes(f"{path}.pool", row.get("pool") or "")
    causes += label_causes(f"{path}.device", row.get("device") or "")
    if len(given := rows(row.get("conditions"))) > CONDITIONS:
        causes.append(too_many(f"{path}.conditions", len(given), CONDITIONS))
    else:
        causes += causes_of(conditions, f"{path}.conditions", given)
    causes += object_causes(f"{path}.data", row.get("data"), needed=False)
    return causes + _network_causes(f"{path}.networkData", table(row.get("networkData")))


def key_of(row: Object) -> Object:
    """Return the key of a device status as upstream shows it."""
    return {name: row.get(name[0].lower() + name[1:]) or "" for name in ("Driver", "Pool", "Device", "ShareID")}


def share_causes(path: str, id: Any) -> list[Cause]:
    """Validate the id of a share: a UUID as upstream writes it."""
    if id is None:
        return []
    text = str(id)
    if UUID.fullmatch(text):
        return [] if len(text) == UUID_LENGTH and text == text.lower() else [invalid(path, text, NORMAL_UUID)]
    fault = "format" if len(text) == UUID_LENGTH else f"length: {len(text)}"
    return [invalid(path, text, f"error validating uid: invalid UUID {fault}")]


def _network_causes(path: str, network: Object) -> list[Cause]:
    causes = []
    for name, limit in (("interfaceName", INTERFACE), ("hardwareAddress", HARDWARE)):
        if len(network.get(name) or "") > limit:
            causes.append(too_long(f"{path}.{name}", limit))
    return causes + each(f"{path}.ips", network.get("ips"), IPS, _ip_causes, str)


def _ip_causes(path: str, value: Any) -> list[Cause]:
    text = str(value)
    try:
        network = ipaddress.ip_interface(text)
    except ValueError:
        network = None
    if network is not None and "/" in text and str(network) == text:
        return []
    return [invalid(path, text, "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)")]

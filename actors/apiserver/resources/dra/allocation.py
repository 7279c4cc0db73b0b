"""Validate the status of a ResourceClaim: allocation, consumers and device status."""

import ipaddress
from typing import Any

from actors.apiserver.api.causes import Cause, forbidden, invalid, required, too_long, too_many, unsupported
from actors.apiserver.api.objects import at
from actors.apiserver.resources.dra.names import driver_causes, each, label_causes, pool_causes, rows, table
from actors.apiserver.resources.dra.requests import REFERENCE, references_causes
from actors.apiserver.resources.dra.selectors import object_causes, opaque_causes
from actors.apiserver.resources.dra.slices import selector_causes
from actors.apiserver.resources.dra.values import default_tolerations, tolerations_causes
from actors.apiserver.resources.validation.metadata import conditions
from actors.apiserver.resources.validation.table import found
from protocols.kube.meta import Object

RESULTS, CONFIGS, CONSUMERS, CONDITIONS, IPS = 32, 64, 256, 8, 16
INTERFACE, HARDWARE = 256, 128
SOURCES = ("FromClaim", "FromClass")
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

    return causes + each("status.devices", status.get("devices"), RESULTS, device, identity_of)


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
        causes = [] if held.get("request") in names else [invalid(f"{at}.request", held.get("request"), REFERENCE)]
        causes += driver_causes(f"{at}.driver", held.get("driver") or "")
        causes += pool_causes(f"{at}.pool", held.get("pool") or "")
        causes += label_causes(f"{at}.device", held.get("device") or "")
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
    causes = [] if allocated else [invalid(path, row, "must be an allocated device in the claim")]
    causes += driver_causes(f"{path}.driver", row.get("driver") or "")
    causes += pool_causes(f"{path}.pool", row.get("pool") or "")
    causes += label_causes(f"{path}.device", row.get("device") or "")
    if len(given := rows(row.get("conditions"))) > CONDITIONS:
        causes.append(too_many(f"{path}.conditions", len(given), CONDITIONS))
    else:
        causes += found(conditions, f"{path}.conditions", given)
    causes += object_causes(f"{path}.data", row.get("data"), needed=False)
    return causes + _network_causes(f"{path}.networkData", table(row.get("networkData")))


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

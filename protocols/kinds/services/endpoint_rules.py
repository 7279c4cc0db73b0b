"""Validation of Endpoints and EndpointSlices."""

import ipaddress

from protocols.kinds.check.causes import Cause, duplicate, invalid, required, too_many, unsupported
from protocols.kinds.check.values import IP_TEXT, PROTOCOLS, special_faults
from protocols.kube.meta import SLICE_MANAGER, SLICE_MANAGER_LABEL, Object, labels_of
from protocols.kube.names import label_faults, qualified_faults, subdomain_faults
from protocols.kube.objects import items

MOST_PORT = 65535
TYPES = {"FQDN": 0, "IPv4": 4, "IPv6": 6}
"""Address types of a slice, and the family of their addresses."""
ENDPOINTS, ADDRESSES, PORTS, HINTS = 1000, 100, 20000, 8
NO_ADDRESS = "must specify `addresses` or `notReadyAddresses`"
PORT_RANGE = "must be between 1 and 65535, inclusive"
LOOPBACK = ("127.0.0.1", "::1")
"""Pods on the host's network of a plane that only this machine reaches: slices made of pods may have them."""


def _ip_causes(path: str, text: str, family: int = 0) -> list[Cause]:
    """Validate an address of an endpoint, of one `family` if it is 4 or 6."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return [invalid(path, text, IP_TEXT)]
    if family and address.version != family:
        return [invalid(path, text, f"must be a valid IPv{family} address")]
    return [invalid(path, text, fault) for fault in special_faults(address)]


def endpoints_causes(obj: Object) -> list[Cause]:
    causes = []
    for index, subset in enumerate(items(obj, "subsets")):
        path = f"subsets[{index}]"
        found = [(name, each) for name in ("addresses", "notReadyAddresses") for each in enumerate(items(subset, name))]
        causes += [] if found else [required(path, NO_ADDRESS)]
        for name, (place, address) in found:
            causes += _address_causes(f"{path}.{name}[{place}]", address)
        ports = items(subset, "ports")
        for place, port in enumerate(ports):
            causes += _port_causes(f"{path}.ports[{place}]", port, named=len(ports) > 1)
    return causes


def _address_causes(path: str, address: Object) -> list[Cause]:
    causes = _ip_causes(f"{path}.ip", address.get("ip") or "")
    name, node = address.get("hostname"), address.get("nodeName")
    causes += [invalid(f"{path}.hostname", name, fault) for fault in (label_faults(name) if name else ())]
    if node is not None:
        causes += [invalid(f"{path}.nodeName", node, fault) for fault in subdomain_faults(node)]
    return causes


def _port_causes(path: str, port: Object, named: bool) -> list[Cause]:
    number, name = port.get("port") or 0, port.get("name") or ""
    causes = [required(f"{path}.name")] if named and not name else []
    causes += [invalid(f"{path}.name", name, fault) for fault in (label_faults(name) if name else ())]
    if not 0 < number <= MOST_PORT:
        causes.append(invalid(f"{path}.port", number, PORT_RANGE))
    return causes + _protocol_causes(path, port)


def _protocol_causes(path: str, port: Object) -> list[Cause]:
    protocol, application = port.get("protocol") or "", port.get("appProtocol")
    causes = [] if protocol else [required(f"{path}.protocol")]
    if protocol and protocol not in PROTOCOLS:
        causes.append(unsupported(f"{path}.protocol", protocol, PROTOCOLS))
    if application is not None:
        causes += [invalid(f"{path}.appProtocol", application, fault) for fault in qualified_faults(application)]
    return causes


def slice_causes(obj: Object) -> list[Cause]:
    kind, endpoints, ports = obj.get("addressType") or "", items(obj, "endpoints"), items(obj, "ports")
    causes = [] if kind else [required("addressType")]
    if kind and kind not in TYPES:
        causes.append(unsupported("addressType", kind, tuple(TYPES)))
    if len(endpoints) > ENDPOINTS:
        causes.append(too_many("endpoints", len(endpoints), ENDPOINTS))
    else:
        allowed = LOOPBACK if labels_of(obj).get(SLICE_MANAGER_LABEL) == SLICE_MANAGER else ()
        places = ((f"endpoints[{at}]", each) for at, each in enumerate(endpoints))
        causes += [cause for path, each in places for cause in _endpoint(path, each, kind, allowed)]
    if len(ports) > PORTS:
        return [*causes, too_many("ports", len(ports), PORTS)]
    seen = set()
    for index, port in enumerate(ports):
        name, path = port.get("name") or "", f"ports[{index}]"
        causes += [invalid(f"{path}.name", name, fault) for fault in (label_faults(name) if name else ())]
        causes += [duplicate(f"{path}.name", name)] if name in seen else []
        seen.add(name)
        causes += _protocol_causes(path, port)
    return causes


def _endpoint(path: str, endpoint: Object, kind: str, allowed: tuple[str, ...]) -> list[Cause]:
    addresses, causes = endpoint.get("addresses") or [], list[Cause]()
    if not addresses:
        causes.append(required(f"{path}.addresses", "must contain at least 1 address"))
    elif len(addresses) > ADDRESSES:
        causes.append(too_many(f"{path}.addresses", len(addresses), ADDRESSES))
    for index, address in enumerate(addresses):
        where = f"{path}.addresses[{index}]"
        if kind == "FQDN":
            causes += [invalid(where, address, fault) for fault in _domain_faults(address)]
        elif kind in TYPES and address not in allowed:
            causes += _ip_causes(where, address, TYPES[kind])
    for name, faults in (("nodeName", subdomain_faults), ("hostname", label_faults)):
        if (value := endpoint.get(name)) is not None:
            causes += [invalid(f"{path}.{name}", value, fault) for fault in faults(value)]
    return causes + _hints(f"{path}.hints", endpoint.get("hints") or {})


def _domain_faults(name: str) -> list[str]:
    if faults := subdomain_faults(name.removesuffix(".")):
        return faults
    return [] if "." in name.removesuffix(".") else ["should be a domain with at least two segments separated by dots"]


def _hints(path: str, hints: Object) -> list[Cause]:
    causes, faults_of = list[Cause](), {"forZones": qualified_faults, "forNodes": subdomain_faults}
    for field, faults in faults_of.items():
        names = [each.get("name") or "" for each in items(hints, field)]
        if len(names) > HINTS:
            causes.append(too_many(f"{path}.{field}", len(names), HINTS))
            continue
        for index, name in enumerate(names):
            where = f"{path}.{field}[{index}].name"
            causes += [duplicate(where, name)] if name in names[:index] else []
            causes += [invalid(where, name, fault) for fault in (faults(name) if name or field == "forNodes" else ())]
    return causes

"""Validation of Endpoints and EndpointSlices."""

import ipaddress

from protocols.kinds.check.causes import required
from protocols.kinds.check.table import (
    Causes,
    Check,
    Ordered,
    anything,
    at_most,
    each,
    needed,
    once,
    one_of,
    texts,
    together,
)
from protocols.kinds.check.values import (
    PROTOCOLS,
    label,
    label_key,
    label_value,
    node_name,
    port_number,
    special_faults,
    strict_ip_faults,
)
from protocols.kube.meta import SLICE_MANAGER, SLICE_MANAGER_LABEL, Object, labels_of
from protocols.kube.names import label_faults, subdomain_faults

ENDPOINTS, ADDRESSES, PORTS, HINTS = 1000, 100, 20000, 8
NO_ADDRESS = "must specify `addresses` or `notReadyAddresses`"
LOOPBACK = ("127.0.0.1", "::1")
"""Pods on the host's network of a plane that only this machine reaches: slices made of pods may have them."""


def _ip(family: int, allowed: tuple[str, ...] = ()) -> Check:
    """Return the check of an endpoint's address, of one `family` if it is 4 or 6."""

    def faults(text: str) -> list[str]:
        if text in allowed:
            return []
        if wrong := strict_ip_faults(text):
            return wrong
        address = ipaddress.ip_address(text)
        if family and address.version != family:
            return [f"must be a valid IPv{family} address"]
        return list(special_faults(address))

    return texts(faults, empty=True)


def _domain_faults(name: str) -> list[str]:
    if faults := subdomain_faults(name.removesuffix(".")):
        return faults
    return [] if "." in name.removesuffix(".") else ["should be a domain with at least two segments separated by dots"]


_protocol = needed(one_of(*PROTOCOLS))
_ADDRESS = Ordered("ip", ip=_ip(0), hostname=label, nodeName=node_name)
_PORT = Ordered("port=0 protocol", name=label, port=port_number, protocol=_protocol, appProtocol=label_key)


def _ports(path: str, ports: list[Object], causes: Causes) -> None:
    for index, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            causes.append(required(f"{path}[{index}].name"))
        _PORT(f"{path}[{index}]", port, causes)


def _has_addresses(path: str, subset: Object, causes: Causes) -> None:
    if not subset.get("addresses") and not subset.get("notReadyAddresses"):
        causes.append(required(path, NO_ADDRESS))


_SUBSET = together(_has_addresses, Ordered(addresses=each(_ADDRESS), notReadyAddresses=each(_ADDRESS), ports=_ports))
ENDPOINTS_RULES = Ordered(subsets=each(_SUBSET))


def _endpoint(address: Check) -> Check:
    addresses = needed(together(at_most(ADDRESSES), each(address)), "must contain at least 1 address")
    return Ordered("addresses", addresses=addresses, nodeName=node_name, hostname=texts(label_faults, empty=True),
                   hints=_hints)  # fmt: skip


def _hints(path: str, hints: Object, causes: Causes) -> None:
    zones, nodes = (Ordered("name", name=together(once(), check)) for check in (label_value, node_name))
    Ordered(forZones=each(zones, limit=HINTS), forNodes=each(nodes, limit=HINTS))(path, hints, causes)


_BY_TYPE = {
    "FQDN": _endpoint(texts(_domain_faults, empty=True)),
    "IPv4": _endpoint(_ip(4)),
    "IPv6": _endpoint(_ip(6)),
}
_MANAGED = {**_BY_TYPE, "IPv4": _endpoint(_ip(4, LOOPBACK)), "IPv6": _endpoint(_ip(6, LOOPBACK))}
_UNTYPED = _endpoint(anything)
"""Addresses of a slice whose type is invalid are not checked."""
_address_type = needed(one_of(*_BY_TYPE))


def slice_rules(path: str, obj: Object, causes: Causes) -> None:
    """Check an EndpointSlice; the rules of addresses are milder for the endpoint slice controller."""
    by_type = _MANAGED if labels_of(obj).get(SLICE_MANAGER_LABEL) == SLICE_MANAGER else _BY_TYPE
    endpoint = by_type.get(obj.get("addressType") or "", _UNTYPED)
    port = Ordered("name protocol", name=together(label, once()), protocol=_protocol, appProtocol=label_key)
    table = Ordered(
        "addressType",
        addressType=_address_type,
        endpoints=each(endpoint, limit=ENDPOINTS),
        ports=each(port, limit=PORTS),
    )
    table(path, obj, causes)

"""Services, Endpoints and EndpointSlices. Nothing proxies the addresses of services."""

from itertools import islice

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.served.columns import AGE, NAME, NONE, cell, field
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.services.allocation import reservations
from protocols.kinds.services.endpoint_rules import ENDPOINTS_RULES, slice_rules
from protocols.kinds.services.services import BALANCER, ServiceStrategy
from protocols.kinds.workloads.columns import labels
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text

MOST_SHOWN, UNSET = 3, "<unset>"
"""Maximum number of endpoints or ports in a table cell, and the text for none of a slice."""


class _EndpointsStrategy(Strategy):
    rules = ENDPOINTS_RULES

    def default(self, obj: Object) -> None:
        for subset in items(obj, "subsets"):
            for port in items(subset, "ports"):
                port["protocol"] = port.get("protocol") or "TCP"


class _SliceStrategy(Strategy):
    has_generation = True
    rules = staticmethod(slice_rules)
    immutable = ("addressType",)

    def default(self, obj: Object) -> None:
        for port in items(obj, "ports"):
            port["name"], port["protocol"] = port.get("name") or "", port.get("protocol") or "TCP"

    def prepare_create(self, obj: Object) -> None:
        for endpoint in items(obj, "endpoints"):
            endpoint.pop("deprecatedTopology", None)

    def prepare_update(self, new: Object, old: Object) -> None:
        self.prepare_create(new)

    def bumps_generation(self, new: Object, old: Object) -> bool:
        parts = ("addressType", "endpoints", "ports")
        same_labels = at(new, "metadata", "labels") == at(old, "metadata", "labels")
        return not same_labels or any(new.get(part) != old.get(part) for part in parts)


def _external_ip(obj: Object) -> str:
    if text(obj, "spec", "type") == "ExternalName":
        return text(obj, "spec", "externalName")
    balanced = text(obj, "spec", "type") == BALANCER
    ingress = items(obj, "status", "loadBalancer", "ingress") if balanced else []
    given = sorted({text(place, "ip") or text(place, "hostname") for place in ingress} - {""})
    missing = "<pending>" if balanced else NONE
    return ",".join([*given, *(at(obj, "spec", "externalIPs") or ())]) or missing


def _service_ports(obj: Object) -> str:
    shown = []
    for port in items(obj, "spec", "ports"):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def _endpoints(obj: Object) -> str:
    subsets = [(items(subset, "addresses"), items(subset, "ports") or [{}]) for subset in items(obj, "subsets")]
    pairs = ((address, port) for addresses, ports in subsets for port in ports for address in addresses)
    shown = [_joined(text(address, "ip"), port.get("port")) for address, port in islice(pairs, MOST_SHOWN)]
    return _first(shown, sum(len(addresses) * len(ports) for addresses, ports in subsets)) if subsets else NONE


def _joined(ip: str, port: int | None) -> str:
    host = f"[{ip}]" if ":" in ip else ip
    return ip if port is None else f"{host}:{port}"


def _first(texts: list[str], count: int) -> str:
    """Join the first texts of `count`."""
    more = f" + {count - MOST_SHOWN} more..." if count > MOST_SHOWN else ""
    return ",".join(texts[:MOST_SHOWN]) + more


def _slice_ports(obj: Object) -> str:
    named = ((text(port, "port"), port.get("name")) for port in items(obj, "ports"))
    shown = [number or ("*" if name is None else str(name)) for number, name in named]
    return _first(shown, len(shown)) or UNSET


def _slice_endpoints(obj: Object) -> str:
    shown = [str(address) for each in items(obj, "endpoints") for address in at(each, "addresses") or ()]
    return _first(shown, len(shown)) or UNSET


SERVICES = Served(
    **asdict(kinds.SERVICES),
    strategy=ServiceStrategy(),
    columns=(
        NAME,
        Column("Type", cell("spec", "type")),
        Column("Cluster-IP", cell("spec", "clusterIP", missing=NONE)),
        Column("External-IP", _external_ip),
        Column("Port(s)", _service_ports),
        AGE,
        Column("Selector", labels("spec", "selector"), 1),
    ),
    subresources=(
        Subresource("proxy", ("create", "delete", "get", "patch", "update"), "ServiceProxyOptions", version="v1"),
        Subresource("status", STATUS_VERBS, "Service", version="v1"),
    ),
    fields={"spec.clusterIP": field("spec", "clusterIP"), "spec.type": field("spec", "type")},
    returns_object=True,
    reserves=reservations,
)

ENDPOINTS = Served(
    **asdict(kinds.ENDPOINTS),
    deprecated="v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    strategy=_EndpointsStrategy(),
    columns=(NAME, Column("Endpoints", _endpoints), AGE),
    create_on_update=True,
)

SLICES = Served(
    **asdict(kinds.ENDPOINTSLICES),
    strategy=_SliceStrategy(),
    columns=(
        NAME,
        Column("AddressType", cell("addressType")),
        Column("Ports", _slice_ports),
        Column("Endpoints", _slice_endpoints),
        AGE,
    ),
)

ROWS = (SERVICES, ENDPOINTS, SLICES)

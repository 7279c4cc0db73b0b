"""Services, Endpoints and EndpointSlices. Nothing proxies the addresses of services."""

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.served.columns import AGE, NAME, NONE, cell, field
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.services.allocation import reservations
from protocols.kinds.services.endpoint_rules import ENDPOINTS_RULES, slice_rules
from protocols.kinds.services.services import ServiceStrategy
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text

MOST_ENDPOINTS = 3
"""Maximum number of endpoints in a table cell."""


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
    given = [
        text(ingress, "ip") or text(ingress, "hostname") for ingress in items(obj, "status", "loadBalancer", "ingress")
    ]
    return ",".join([*given, *(at(obj, "spec", "externalIPs") or ())]) or NONE


def _service_ports(obj: Object) -> str:
    shown = []
    for port in items(obj, "spec", "ports"):
        node = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or NONE


def _selector(obj: Object) -> str:
    return ",".join(f"{key}={value}" for key, value in (at(obj, "spec", "selector") or {}).items()) or NONE


def _endpoints(obj: Object) -> str:
    endpoints = [
        f"{text(address, 'ip')}:{port.get('port')}" if port else text(address, "ip")
        for subset in items(obj, "subsets")
        for port in items(subset, "ports") or [{}]
        for address in items(subset, "addresses")
    ]
    more = f" + {len(endpoints) - MOST_ENDPOINTS} more..." if len(endpoints) > MOST_ENDPOINTS else ""
    return (",".join(endpoints[:MOST_ENDPOINTS]) + more) or NONE


def _slice_ports(obj: Object) -> str:
    return ",".join(text(port, "port") for port in items(obj, "ports")) or "<unset>"


def _slice_endpoints(obj: Object) -> str:
    addresses = [str(address) for endpoint in items(obj, "endpoints") for address in at(endpoint, "addresses") or ()]
    more = f" + {len(addresses) - MOST_ENDPOINTS} more..." if len(addresses) > MOST_ENDPOINTS else ""
    return (",".join(addresses[:MOST_ENDPOINTS]) + more) or "<unset>"


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
        Column("Selector", _selector, 1),
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

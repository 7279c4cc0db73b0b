"""Services: defaults and validation. Messages equal upstream's."""

import ipaddress
from collections.abc import Callable, Collection, Iterable
from typing import Any

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, required
from protocols.kinds.check.table import Causes, Ordered, Struct, between, causes_of, each, one_of, texts, together
from protocols.kinds.check.values import (
    PROTOCOLS,
    address,
    label,
    labels,
    port,
    port_number,
    special_faults,
    strict_cidr_faults,
    strict_ip_faults,
    without_stored,
)
from protocols.kinds.served.errors import AllocationInvalid
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.services.allocation import (
    Allocation,
    Network,
    needs_health_port,
    needs_ports,
    takes_external_traffic,
)
from protocols.kinds.services.changes import keep_allocated
from protocols.kinds.services.families import (
    HEADLESS,
    ONCE,
    address_causes,
    change_causes,
    cluster_ips,
    external_causes,
    settle,
)
from protocols.kinds.services.warnings import service_warnings
from protocols.kube.meta import Object
from protocols.kube.names import qualified_faults, subdomain_faults
from protocols.kube.objects import at, items

BALANCER, CLASS = "LoadBalancer", "spec.loadBalancerClass"
ONLY = f"may only be used when `type` is '{BALANCER}'"


def external_ip(path: str, text: str, causes: Causes) -> None:
    """Check an address at which the service is reached from outside."""
    parsed = address(text)
    faults = strict_ip_faults(text) or (special_faults(parsed) if parsed is not None else ())
    causes.extend(invalid(path, text, fault) for fault in faults)


def balancer_causes(spec: Object) -> list[Cause]:
    """Check spec fields that only load balancers may have."""
    causes, balanced = list[Cause](), spec.get("type") == BALANCER
    if not balanced and spec.get("allocateLoadBalancerNodePorts") is not None:
        causes.append(forbidden("spec.allocateLoadBalancerNodePorts", ONLY))
    if (name := spec.get("loadBalancerClass")) is not None:
        wrong = [invalid(CLASS, name, fault) for fault in qualified_faults(name)]
        causes += wrong if balanced else [forbidden(CLASS, ONLY)]
    field, ranges = "spec.LoadBalancerSourceRanges", spec.get("loadBalancerSourceRanges") or ()  # upstream's spelling
    causes += [forbidden(field, ONLY)] if ranges and not balanced else []
    for index, text in enumerate(ranges):
        causes += [invalid(f"{field}[{index}]", text, fault) for fault in strict_cidr_faults(text.strip())]
    return causes


def class_change_causes(spec: Object, before: Object) -> list[Cause]:
    """Check that the class of a load balancer stays, set or not."""
    now, then = spec.get("loadBalancerClass"), before.get("loadBalancerClass")
    is_one = spec.get("type") == before.get("type") == BALANCER
    return [invalid(CLASS, now, ONCE)] if is_one and now != then else []


def default_ingress(obj: Object) -> None:
    """Set how addresses of the load balancer are reached: as virtual ones."""
    for place in items(obj, "status", "loadBalancer", "ingress"):
        if place.get("ip") and place.get("ipMode") is None:
            place["ipMode"] = "VIP"


def _host_faults(text: str) -> list[str]:
    named = [] if address(text) is None else ["must be a DNS name, not an IP address"]
    return [*subdomain_faults(text), *named]


def _mode(path: str, place: Object, causes: Causes) -> None:
    if place.get("ipMode") is not None and not place.get("ip"):
        causes.append(forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set"))
    else:
        MODE(path, place, causes)


MODE = Ordered(ipMode=one_of("Proxy", "VIP", empty=True))
_place = together(Ordered(ip=texts(strict_ip_faults)), _mode, Ordered(hostname=texts(_host_faults)))
INGRESS = Ordered(status=Ordered(loadBalancer=Ordered(ingress=each(_place))))
"""The ingress points in the status of a service."""


TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
AFFINITY_SECONDS = 10800
NOT_EXTERNAL = "may only be set for externally-accessible services"
HEALTH, HEALTH_PORT = (
    "spec.healthCheckNodePort",
    "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
)

SERVICE = Struct(
    type=one_of(*TYPES),
    selector=labels,
    sessionAffinity=one_of("ClientIP", "None"),
    sessionAffinityConfig=Struct(
        clientIP=Struct(timeoutSeconds=between(1, 86400, "must be greater than 0 and less than 86400"))
    ),
    externalIPs=each(external_ip),
    internalTrafficPolicy=one_of("Cluster", "Local", empty=True),
    ipFamilies=each(one_of("IPv4", "IPv6", empty=True)),
    ipFamilyPolicy=one_of("PreferDualStack", "RequireDualStack", "SingleStack", empty=True),
    trafficDistribution=one_of("PreferClose", "PreferSameZone", "PreferSameNode", empty=True),
)
PORT = Struct(
    "protocol",
    name=label,
    protocol=one_of(*PROTOCOLS),
    targetPort=port,
    appProtocol=texts(qualified_faults, empty=True),
)


def _service_causes(service: Object) -> list[Cause]:
    spec = service.get("spec") or {}
    causes = causes_of(SERVICE, "spec", spec)
    ports, kind = items(spec, "ports"), spec.get("type")
    headless = cluster_ips(spec)[:1] == [HEADLESS]
    if not ports and kind != "ExternalName" and not headless:
        causes.append(required("spec.ports"))
    if headless and needs_ports(spec):
        causes.append(invalid("spec.clusterIPs[0]", HEADLESS, f"may not be set to 'None' for {kind} services"))
    causes += external_causes(spec) if kind == "ExternalName" else address_causes(spec)
    _ports(ports, kind == "ClusterIP", causes)
    return causes + _external_traffic_causes(spec) + balancer_causes(spec)


_policy = one_of("Cluster", "Local")


def _external_traffic_causes(spec: Object) -> list[Cause]:
    policy, number, causes = spec.get("externalTrafficPolicy") or "", spec.get("healthCheckNodePort"), list[Cause]()
    if policy and not takes_external_traffic(spec):
        causes.append(invalid("spec.externalTrafficPolicy", policy, NOT_EXTERNAL))
    else:
        _policy("spec.externalTrafficPolicy", policy, causes)
    if number and not needs_health_port(spec):
        causes.append(invalid(HEALTH, number, HEALTH_PORT))
    elif number:
        port_number(HEALTH, number, causes)
    return causes


def _health_port_change_causes(spec: Object, before: Object) -> list[Cause]:
    """Check that the port stays while the service needs one."""
    same = spec.get("healthCheckNodePort") == before.get("healthCheckNodePort")
    if same or not (needs_health_port(spec) and needs_health_port(before)):
        return []
    return [forbidden(HEALTH, "field is immutable")]


def _ports(ports: list[Object], internal: bool, causes: Causes) -> None:
    names, taken, node_ports = set[str](), set[Any](), set[Any]()
    for index, value in enumerate(ports):
        path, name = f"spec.ports[{index}]", value.get("name") or ""
        PORT(path, value, causes)
        port_number(f"{path}.port", value.get("port") or 0, causes)
        if not name and len(ports) > 1:
            causes.append(required(f"{path}.name"))
        elif name and name in names:
            causes.append(duplicate(f"{path}.name", name))
        if internal and value.get("nodePort"):
            causes.append(forbidden(f"{path}.nodePort", "may not be used when `type` is 'ClusterIP'"))
        pair = value.get("protocol"), value.get("port")
        if pair in taken:
            causes.append(duplicate(path, {"protocol": pair[0], "port": pair[1]}))
        node = value.get("protocol"), value.get("nodePort")
        if node[1] and node in node_ports:
            causes.append(duplicate(f"{path}.nodePort", node[1]))
        names.add(name)
        taken.add(pair)
        node_ports.add(node)


def _default_service(spec: Object) -> None:
    spec["type"] = kind = spec.get("type") or "ClusterIP"
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    if spec["sessionAffinity"] == "ClientIP":
        client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        client.setdefault("timeoutSeconds", AFFINITY_SECONDS)
    elif spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    for value in items(spec, "ports"):
        value["protocol"] = value.get("protocol") or "TCP"
        if value.get("targetPort") in (None, "", 0):
            value["targetPort"] = value.get("port")
    if kind in TYPES and kind != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == BALANCER:
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if takes_external_traffic(spec):
        spec.setdefault("externalTrafficPolicy", "Cluster")


def service_networks(text: str) -> tuple[Network, ...]:
    """Return the ranges of a checked setting, the primary one first."""
    return tuple(ipaddress.ip_network(part) for part in text.split(","))


class ServiceStrategy(Strategy):
    """Services: families and addresses are settled before validation, allocated after it."""

    has_status = True
    status_rules = INGRESS
    ranges: tuple[Network, ...] = service_networks("10.96.0.0/16")
    """Set when the API server starts, as `services` is."""
    services: Callable[[], Iterable[Object]] = staticmethod(tuple)

    def default(self, obj: Object) -> None:
        _default_service(obj.setdefault("spec", {}))

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}
        spec = obj["spec"]
        if spec.get("clusterIP") and not spec.get("clusterIPs"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        settle(spec, None, self.families)

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        spec, before = new["spec"], old.get("spec") or {}
        if spec.get("type") != BALANCER and at(new, "status", "loadBalancer"):
            new["status"] = {**new["status"], "loadBalancer": {}}
        keep_allocated(spec, before)
        settle(spec, before, self.families)

    def validate_create(self, obj: Object) -> list[Cause]:
        return settle(dict(obj["spec"]), None, self.families) or _service_causes(obj)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        before = old.get("spec") or {}
        causes = settle(dict(new["spec"]), before, self.families)
        return causes or [
            *_service_causes(new),
            *change_causes(new["spec"], before),
            *class_change_causes(new["spec"], before),
            *_health_port_change_causes(new["spec"], before),
        ]

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        if items(new, "status", "loadBalancer", "ingress") and at(new, "spec", "type") != BALANCER:
            return [forbidden("status.loadBalancer.ingress", f"may only be used when `spec.type` is '{BALANCER}'")]
        return without_stored(super().validate_status(new, old), lambda: causes_of(INGRESS, "", old))

    def default_status(self, obj: Object) -> None:
        default_ingress(obj)

    def allocate(self, obj: Object, old: Object | None, taken: Collection[str] = ()) -> Object:
        before = None if old is None else old.get("spec") or {}
        spec = {**obj["spec"], "ports": [dict(port) for port in items(obj, "spec", "ports")]}
        if not spec["ports"]:
            del spec["ports"]
        if causes := Allocation(self.ranges, taken, self.services).assign(spec, before):
            raise AllocationInvalid(causes)
        return {**obj, "spec": spec}

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return service_warnings(new)

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(f"IPv{network.version}" for network in self.ranges)

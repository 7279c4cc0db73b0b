"""Services: defaults and validation. Messages equal upstream's. This server allocates no addresses."""

from typing import Any

from actors.apiserver.api.causes import Cause, duplicate, forbidden, invalid, required
from actors.apiserver.api.objects import items
from actors.apiserver.api.strategy import Strategy
from actors.apiserver.resources.validation.table import Causes, Struct, between, each, found, one_of, texts
from actors.apiserver.resources.validation.values import (
    address,
    cidr,
    ip,
    label,
    labels,
    port,
    port_number,
    subdomain,
)
from protocols.kube.meta import Object
from protocols.kube.names import qualified_faults

TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
PROTOCOLS = ("SCTP", "TCP", "UDP")
HEADLESS = "None"
AFFINITY_SECONDS = 10800
ALLOCATED = ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")
"""Fields that an update keeps if it leaves them out."""
BALANCER = "may only be used when `type` is 'LoadBalancer'"

SERVICE = Struct(
    type=one_of(*TYPES),
    selector=labels,
    sessionAffinity=one_of("ClientIP", "None"),
    sessionAffinityConfig=Struct(
        clientIP=Struct(timeoutSeconds=between(1, 86400, "must be greater than 0 and less than 86400"))
    ),
    externalIPs=each(ip),
    externalTrafficPolicy=one_of("Cluster", "Local"),
    internalTrafficPolicy=one_of("Cluster", "Local", empty=True),
    ipFamilies=each(one_of("IPv4", "IPv6", empty=True)),
    ipFamilyPolicy=one_of("PreferDualStack", "RequireDualStack", "SingleStack", empty=True),
    trafficDistribution=one_of("PreferClose", "PreferSameZone", "PreferSameNode", empty=True),
    externalName=subdomain,
)
PORT = Struct(
    "protocol",
    name=label,
    protocol=one_of(*PROTOCOLS),
    targetPort=port,
    appProtocol=texts(qualified_faults, empty=True),
)


def service_causes(service: Object) -> list[Cause]:
    spec = service.get("spec") or {}
    causes = found(SERVICE, "spec", spec)
    ports, kind = items(spec, "ports"), spec.get("type")
    addresses = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    if not ports and kind != "ExternalName" and HEADLESS not in addresses:
        causes.append(required("spec.ports"))
    for index, text in enumerate(addresses):
        if text != HEADLESS:
            ip(f"spec.clusterIPs[{index}]", text, causes)
    _ports(ports, kind == "ClusterIP", causes)
    if kind != "LoadBalancer":
        _only_balancers(spec, causes)
    return causes


def _ports(ports: list[Object], internal: bool, causes: Causes) -> None:
    names, taken = set[str](), set[Any]()
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
        names.add(name)
        taken.add(pair)


def _only_balancers(spec: Object, causes: Causes) -> None:
    for field in ("allocateLoadBalancerNodePorts", "loadBalancerClass"):
        if spec.get(field) is not None:
            causes.append(forbidden(f"spec.{field}", BALANCER))
    if ranges := spec.get("loadBalancerSourceRanges"):
        field = "spec.LoadBalancerSourceRanges"  # upstream's spelling
        causes.append(forbidden(field, BALANCER))
        for index, text in enumerate(ranges):
            cidr(f"{field}[{index}]", text, causes)
    if number := spec.get("healthCheckNodePort"):
        text = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        causes.append(invalid("spec.healthCheckNodePort", number, text))


def default_service(spec: Object) -> None:
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
    if kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and spec.get("externalIPs")):
        spec.setdefault("externalTrafficPolicy", "Cluster")


def allocate(spec: Object) -> None:
    """Set the fields that follow from the cluster IP, which is the client's own here, or None."""
    if spec.get("type") == "ExternalName":
        return
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]
    elif spec.get("clusterIPs") and not spec.get("clusterIP"):
        spec["clusterIP"] = spec["clusterIPs"][0]
    if not spec.get("ipFamilies"):
        given = [address(text) for text in spec.get("clusterIPs") or ()]
        spec["ipFamilies"] = [f"IPv{each.version}" for each in given if each is not None] or ["IPv4"]
    if not spec.get("ipFamilyPolicy"):
        spec["ipFamilyPolicy"] = "SingleStack" if len(spec["ipFamilies"]) < 2 else "PreferDualStack"


class ServiceStrategy(Strategy):
    has_status = True

    def default(self, obj: Object) -> None:
        default_service(obj.setdefault("spec", {}))

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {"loadBalancer": {}}
        allocate(obj["spec"])

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        spec, before = new["spec"], old.get("spec") or {}
        if spec.get("type") != "ExternalName" and before.get("type") != "ExternalName":
            moved = spec.get("clusterIP") not in (None, "", before.get("clusterIP"))
            for field in ALLOCATED:
                if field in before and not (moved and field == "clusterIPs"):
                    spec.setdefault(field, before[field])
        allocate(spec)

    def validate_create(self, obj: Object) -> list[Cause]:
        return service_causes(obj)

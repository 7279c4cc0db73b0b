"""Load balancers of services: what their spec and status may hold. Messages equal upstream's."""

from protocols.kinds.check.causes import Cause, forbidden, invalid
from protocols.kinds.check.table import Causes, Ordered, each, one_of, texts, together
from protocols.kinds.check.values import address, cidr_faults, ip_faults, special_faults, subdomain
from protocols.kinds.services.families import ONCE
from protocols.kube.meta import Object
from protocols.kube.names import qualified_faults
from protocols.kube.objects import items

BALANCER, CLASS = "LoadBalancer", "spec.loadBalancerClass"
ONLY = f"may only be used when `type` is '{BALANCER}'"


def external_ip(path: str, text: str, causes: Causes) -> None:
    """Check an address at which the service is reached from outside."""
    parsed = address(text)
    faults = ip_faults(text) if parsed is None else special_faults(parsed)
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
        causes += [invalid(f"{field}[{index}]", text, fault) for fault in cidr_faults(text.strip())]
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


def _mode(path: str, place: Object, causes: Causes) -> None:
    if place.get("ipMode") is not None and not place.get("ip"):
        causes.append(forbidden(f"{path}.ipMode", "may not be specified when `ip` is not set"))
    else:
        MODE(path, place, causes)


MODE = Ordered(ipMode=one_of("Proxy", "VIP", empty=True))
_place = together(Ordered(ip=texts(ip_faults)), _mode, Ordered(hostname=subdomain))
INGRESS = Ordered(status=Ordered(loadBalancer=Ordered(ingress=each(_place))))
"""The ingress points in the status of a service."""

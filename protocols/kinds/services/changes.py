"""Carry over what a service was given when an update leaves it out, and drop what another type does not have. Pure."""

from typing import Any

from protocols.kinds.services.allocation import needs_health_port, needs_ports, takes_external_traffic
from protocols.kinds.services.families import EXTERNAL
from protocols.kube.meta import Object
from protocols.kube.objects import items


def keep_allocated(spec: Object, before: Object) -> None:
    """Complete an update in upstream's order: allocated values, clusterIP against clusterIPs, fields of other types."""
    _keep_ips(spec, before)
    if needs_ports(spec) and needs_ports(before):
        _keep_ports(spec, before)
    if needs_health_port(spec) and needs_health_port(before) and not spec.get("healthCheckNodePort"):
        _copy(spec, before, "healthCheckNodePort")
    _synchronize(spec, before)
    _drop(spec, before)


def _keep_ips(spec: Object, before: Object) -> None:
    if EXTERNAL in (spec.get("type"), before.get("type")):
        return
    if not spec.get("clusterIP"):
        _copy(spec, before, "clusterIP")
    if not spec.get("clusterIPs") and spec.get("clusterIP") == before.get("clusterIP"):
        _copy(spec, before, "clusterIPs")
        if not spec.get("ipFamilies"):
            _copy(spec, before, "ipFamilies")


def _copy(spec: Object, before: Object, field: str) -> None:
    if before.get(field):
        spec[field] = before[field]


def _keep_ports(spec: Object, before: Object) -> None:
    """Keep node ports by the names of their ports, unless another port has them now."""
    then = {str(port.get("name") or ""): port.get("nodePort") for port in items(before, "ports")}
    now = {port.get("nodePort") for port in items(spec, "ports")}
    used = now & set(then.values())
    for port in items(spec, "ports"):
        kept = then.get(str(port.get("name") or ""))
        if not port.get("nodePort") and kept and kept not in used:
            port["nodePort"] = kept
            used.add(kept)


def _synchronize(spec: Object, before: Object) -> None:
    """Let clusterIPs follow clusterIP if only the latter was changed, as old clients do."""
    same = (spec.get("clusterIPs") or []) == (before.get("clusterIPs") or [])
    first, then = spec.get("clusterIP") or "", before.get("clusterIP") or ""
    if not spec.get("clusterIPs") and before.get("clusterIPs") and first == then:
        spec["clusterIPs"] = before["clusterIPs"]
    elif first != then and same:
        if first:
            spec["clusterIPs"] = [first]
        else:
            spec.pop("clusterIPs", None)
    elif first and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [first]


def _drop(spec: Object, before: Object) -> None:
    """Drop fields that the new type does not have, if the client did not touch them."""
    external, was_external = spec.get("type") == EXTERNAL, before.get("type") == EXTERNAL
    if external and not was_external:
        if _same(spec, before, "clusterIP") and _same(spec, before, "clusterIPs"):
            _drop_same(spec, before, "clusterIP", "clusterIPs")
        _drop_same(spec, before, "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
    if needs_ports(before) and not needs_ports(spec):
        _drop_ports(spec, before)
    if takes_external_traffic(before) and not takes_external_traffic(spec):
        _drop_same(spec, before, "externalTrafficPolicy")
    if needs_health_port(before) and not needs_health_port(spec):
        _drop_same(spec, before, "healthCheckNodePort")
    if before.get("type") == "LoadBalancer" != spec.get("type"):
        _drop_same(spec, before, "allocateLoadBalancerNodePorts", "loadBalancerClass")


def _drop_ports(spec: Object, before: Object) -> None:
    """Drop node ports unless there are new ones among them; ports may have come or gone."""

    def numbers(each: Object) -> set[Any]:
        return {port["nodePort"] for port in items(each, "ports") if port.get("nodePort")}

    if numbers(spec) <= numbers(before):
        for port in items(spec, "ports"):
            port.pop("nodePort", None)


def _same(spec: Object, before: Object, field: str) -> bool:
    return bool(spec.get(field) == before.get(field))


def _drop_same(spec: Object, before: Object, *fields: str) -> None:
    for field in fields:
        if _same(spec, before, field):
            spec.pop(field, None)

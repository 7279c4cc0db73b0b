"""Warnings about services: fields without effect, deprecated ones, unusual addresses. Texts equal upstream's."""

from collections.abc import Iterator
from itertools import chain

from protocols.kinds.check.warnings import cidr_warnings, ip_warnings
from protocols.kinds.services.families import EXTERNAL, HEADLESS, cluster_ips
from protocols.kube.meta import Object
from protocols.kube.objects import at

HINTS, MODE = "service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode"
DEPRECATED = "spec.externalIPs is deprecated and may no longer be implemented in some clusters"
CLOSE = 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def service_warnings(service: Object) -> list[str]:
    """Return the warnings about a service that is written."""
    spec: Object = service.get("spec") or {}
    hinted = HINTS in (at(service, "metadata", "annotations") or {})
    hints = [f"annotation {HINTS} is deprecated, please use {MODE} instead"] * hinted
    close = [CLOSE] if spec.get("trafficDistribution") == "PreferClose" else []
    return [*hints, *_of_addresses(spec), *_of_type(spec), *close]


def _of_addresses(spec: Object) -> Iterator[str]:
    fields = (
        ("clusterIPs", [ip for ip in cluster_ips(spec) if ip != HEADLESS]),
        ("externalIPs", spec.get("externalIPs")),
    )
    for field, ips in fields:
        yield from chain.from_iterable(ip_warnings(f"spec.{field}[{n}]", ip) for n, ip in enumerate(ips or ()))
    yield from ip_warnings("spec.loadBalancerIP", spec.get("loadBalancerIP") or "")
    for index, cidr in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from cidr_warnings(f"spec.loadBalancerSourceRanges[{index}]", cidr)


def _of_type(spec: Object) -> Iterator[str]:
    is_external, outside = spec.get("type") == EXTERNAL, bool(spec.get("externalIPs"))
    if spec.get("type") == "ClusterIP" and spec.get("clusterIP") == HEADLESS:
        affine = spec.get("sessionAffinity") != "None"
        ignored = {"loadBalancerIP": spec.get("loadBalancerIP"), "externalIPs": outside, "SessionAffinity": affine}
        yield from (f"spec.{field} is ignored for headless services" for field, value in ignored.items() if value)
    elif outside and not is_external:
        yield DEPRECATED
    if outside and is_external:
        yield f'spec.externalIPs is ignored when spec.type is "{EXTERNAL}"'
    if not is_external and spec.get("externalName"):
        yield f'spec.externalName is ignored when spec.type is not "{EXTERNAL}"'

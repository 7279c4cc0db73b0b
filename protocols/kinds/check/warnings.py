"""Warnings about values that several kinds have: valid, and seldom what their author wants. Texts equal upstream's."""

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Any

from protocols.kinds.check.values import address, cidr_faults
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import Object
from protocols.kube.names import label_value_faults
from protocols.kube.objects import at, items
from protocols.kube.quantity import Quantity, parse_quantity

NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
"""Labels of nodes that others replace."""
VOLUMES = {
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
    "gitRepo": "deprecated in v1.11",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
}
"""Sources of volumes that go or are gone."""
MAPPED_BITS = 96
"""Bits of an IPv6 address before the IPv4 address that it stands for."""


def node_term_warnings(path: str, term: Object, *, values: bool = False) -> Iterator[str]:
    """Yield warnings about a node selector term, whose `values` may be no values of labels."""
    for index, requirement in enumerate(items(term, "matchExpressions")):
        where, key = f"{path}.matchExpressions[{index}]", requirement.get("key")
        if key in NODE_LABELS:
            yield f"{where}.key: {key} is {NODE_LABELS[key]}"
        for number, value in enumerate(requirement.get("values") or () if values else ()):
            for fault in label_value_faults(value):
                yield f"{where}.values[{number}]: {value} is invalid, {fault}"


def fraction_warnings(path: str, amounts: Object | None, names: Iterable[str]) -> Iterator[str]:
    """Yield warnings about those amounts of bytes that are no whole number."""
    for name in names:
        if (value := (amounts or {}).get(name)) is not None and (thousandths := _milli(value)) % 1000:
            shown = Quantity(thousandths * 10**6)
            yield f'{path}[{name}]: fractional byte value "{shown}" is invalid, must be an integer'


def _milli(value: Any) -> int:
    try:
        return parse_quantity(value).milli()
    except QuantityInvalid:
        return 0


def claim_warnings(path: str, spec: Object) -> Iterator[str]:
    """Yield warnings about the spec of a claim to a volume."""
    for side in ("requests", "limits"):
        yield from fraction_warnings(f"{path}.resources.{side}", at(spec, "resources", side), ("storage",))


def ip_warnings(path: str, text: str) -> list[str]:
    """Return the warning about an IP address in an unusual form."""
    ip = address(text)
    if ip is None:
        return []
    plain = getattr(ip, "ipv4_mapped", None) or ip
    if plain is not ip or (ip.version == 4 and str(ip) != text):
        return [f'{path}: non-standard IP address "{text}" is invalid: use "{plain}"']
    return [f'{path}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{ip}")'] if str(ip) != text else []


def cidr_warnings(path: str, text: str) -> list[str]:
    """Return warnings about a CIDR that names a host, or that is in an unusual form."""
    host, _, bits = text.partition("/")
    ip = address(host)
    if ip is None or cidr_faults(text):
        return []
    mapped, prefix = getattr(ip, "ipv4_mapped", None), int(bits)
    if mapped is not None and prefix >= MAPPED_BITS:
        ip, prefix = mapped, prefix - MAPPED_BITS
    network = ipaddress.ip_network(f"{ip}/{prefix}", strict=False)
    if ip != network.network_address:
        single = f"{ip}/{ip.max_prefixlen}"
        text = f'{path}: CIDR value "{text}" is ambiguous in this context (should be "{network}" or "{single}"?)'
        return [text]
    if str(network) == text:
        return []
    if ip.version == 4:
        return [f'{path}: non-standard CIDR value "{text}" is invalid: use "{network}"']
    return [f'{path}: IPv6 CIDR value "{text}" should be in RFC 5952 canonical format ("{network}")']

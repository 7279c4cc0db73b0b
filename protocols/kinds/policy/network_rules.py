"""Defaults, validation and warnings of NetworkPolicies. Messages equal upstream's."""

import ipaddress
from collections.abc import Collection, Iterator

from protocols.kinds.check.causes import Cause, forbidden, invalid, required
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import Causes, causes_of, one_of
from protocols.kinds.check.values import CIDR_TEXT, address, port, port_number
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import items

INGRESS, EGRESS = "Ingress", "Egress"
RULES = (("ingress", "from"), ("egress", "to"))
"""Fields of the rules, and those of their peers."""
NOT_ENFORCED = "nodeplane stores this NetworkPolicy but does not enforce it: that is the task of a network plugin"
NO_PEER = "must specify a peer"
TWO_PEERS = "may not specify both ipBlock and another peer"
LEADING_ZEROS = "must not have leading 0s in IP or prefix length"
MAPPED = "must not have an IPv4-mapped IPv6 address"
HOST_BITS = "must not have bits set beyond the prefix length"
NO_SUBSET = "must be a strict subset of `cidr`"
BEFORE_PORT = "must be greater than or equal to `port`"
NAMED_PORT = "may not be specified when `port` is non-numeric"
NO_PORT = "may not be specified when `port` is not specified"
MOST_TYPES = 2
LONGEST_PREFIX = 3
"""Digits of a prefix length without leading zeros."""
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_protocol = one_of("TCP", "UDP", "SCTP", empty=True)
_type = one_of(INGRESS, EGRESS, empty=True)


class NetworkPolicyStrategy(Strategy):
    """NetworkPolicies, which are stored and enforced by nothing here."""

    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj["spec"] = obj.get("spec") or {}
        for rules, _ in RULES:
            for rule in items(spec, rules):
                for each in items(rule, "ports"):
                    if each.get("protocol") is None:
                        each["protocol"] = "TCP"
        if not spec.get("policyTypes"):
            spec["policyTypes"] = [INGRESS, EGRESS] if spec.get("egress") else [INGRESS]

    def validate_create(self, obj: Object) -> list[Cause]:
        return _spec_causes(obj.get("spec") or {}, ())

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Accept the CIDRs of the stored policy, as upstream does: they may be older than a stricter rule."""
        return _spec_causes(new.get("spec") or {}, {text for _, text in _networks(old)})

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        shown = [warning for path, text in _networks(new) for warning in _format_warnings(path, text)]
        return [NOT_ENFORCED, *shown] if old is None else shown


def _spec_causes(spec: Object, stored: Collection[str]) -> Causes:
    causes = causes_of(label_selector, "spec.podSelector", spec.get("podSelector") or {})
    for rules, peers in RULES:
        for index, rule in enumerate(items(spec, rules)):
            path = f"spec.{rules}[{index}]"
            for number, each in enumerate(items(rule, "ports")):
                _port(f"{path}.ports[{number}]", each, causes)
            for number, each in enumerate(items(rule, peers)):
                _peer(f"{path}.{peers}[{number}]", each, stored, causes)
    types = spec.get("policyTypes") or []
    if len(types) > MOST_TYPES:
        return [*causes, invalid("spec.policyTypes", types, "may not specify more than two policyTypes")]
    for index, kind in enumerate(types):
        _type(f"spec.policyTypes[{index}]", kind, causes)
    return causes


def _port(path: str, value: Object, causes: Causes) -> None:
    first, last = value.get("port"), value.get("endPort")
    if (protocol := value.get("protocol")) is not None:
        _protocol(f"{path}.protocol", protocol, causes)
    if isinstance(first, int):
        port(f"{path}.port", first, causes)
        if last is not None:
            if last < first:
                causes.append(invalid(f"{path}.endPort", last, BEFORE_PORT))
            port_number(f"{path}.endPort", last, causes)
        return
    if last is not None:
        causes.append(invalid(f"{path}.endPort", last, NO_PORT if first is None else NAMED_PORT))
    if first is not None:
        port(f"{path}.port", first, causes)


def _peer(path: str, value: Object, stored: Collection[str], causes: Causes) -> None:
    selectors = [name for name in ("podSelector", "namespaceSelector") if value.get(name) is not None]
    for name in selectors:
        label_selector(f"{path}.{name}", value[name], causes)
    block = value.get("ipBlock")
    if block is not None:
        _block(f"{path}.ipBlock", block, stored, causes)
    if block is None and not selectors:
        causes.append(required(path, NO_PEER))
    elif block is not None and selectors:
        causes.append(forbidden(path, TWO_PEERS))


def _block(path: str, value: Object, stored: Collection[str], causes: Causes) -> None:
    cidr = value.get("cidr") or ""
    if not cidr:
        causes.append(required(f"{path}.cidr"))
        return
    causes += [] if cidr in stored else _cidr_causes(f"{path}.cidr", cidr)
    whole = _network(cidr)
    if whole is None:
        return
    for index, text in enumerate(value.get("except") or ()):
        causes += [] if text in stored else _cidr_causes(f"{path}.except[{index}]", text)
        part = _network(text)
        if part is not None and not _is_within(part, whole):
            causes.append(invalid(f"{path}.except[{index}]", text, NO_SUBSET))


def _is_within(part: Network, whole: Network) -> bool:
    """Return True if `part` is a strict subset; networks of two IP families have nothing in common."""
    return part.version == whole.version and part.prefixlen > whole.prefixlen and part.network_address in whole


def _network(text: str) -> Network | None:
    """Return a network as Go's lenient parser reads it: with leading zeros and bits beyond the prefix."""
    host, _, bits = text.partition("/")
    parsed, length = address(host), bits.lstrip("0") or bits[:1]
    if parsed is None or not (length.isdecimal() and length.isascii()) or len(length) > LONGEST_PREFIX:
        return None
    return ipaddress.ip_network((parsed, int(length)), strict=False) if int(length) <= parsed.max_prefixlen else None


def _cidr_causes(path: str, text: str) -> Causes:
    """Check a CIDR by the strict rules (StrictIPCIDRValidation, on since 1.36)."""
    network = _network(text)
    if network is None:
        return [invalid(path, text, CIDR_TEXT)]
    host, _, bits = text.partition("/")
    parsed = address(host)
    if bits != str(network.prefixlen) or (network.version == 4 and host != str(parsed)):
        return [invalid(path, text, LEADING_ZEROS)]
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is not None:
        return [invalid(path, text, MAPPED)]
    return [] if parsed == network.network_address else [invalid(path, text, HOST_BITS)]


def _networks(policy: Object) -> Iterator[tuple[str, str]]:
    """Yield path and text of each CIDR of a policy."""
    for rules, peers in RULES:
        for index, rule in enumerate(items(policy, "spec", rules)):
            for number, peer in enumerate(items(rule, peers)):
                path, block = f"spec.{rules}[{index}].{peers}[{number}].ipBlock", peer.get("ipBlock") or {}
                yield f"{path}.cidr", block.get("cidr") or ""
                for place, text in enumerate(block.get("except") or ()):
                    yield f"{path}.except[{place}]", text


def _format_warnings(path: str, text: str) -> list[str]:
    network = _network(text)
    if network is None or network.version == 4 or str(network) == text:
        return []
    return [f'{path}: IPv6 CIDR value "{text}" should be in RFC 5952 canonical format ("{network}")']

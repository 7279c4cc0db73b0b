"""NetworkPolicies. The API server stores them; enforcing them is the task of a network plugin."""

import ipaddress

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import forbidden, invalid, required
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import Causes, Ordered, each, needed, one_of, texts, together
from protocols.kinds.check.values import address, cidr_faults, port, port_number, strict_cidr_faults
from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import Column, Served
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.workloads.columns import selector
from protocols.kube.meta import Object
from protocols.kube.objects import items

INGRESS, EGRESS = "Ingress", "Egress"
NOT_ENFORCED = "nodeplane stores this NetworkPolicy but does not enforce it: that is the task of a network plugin"


def _last_port(path: str, value: Object, causes: Causes) -> None:
    first, last, path = value.get("port"), value.get("endPort"), f"{path}.endPort"
    if last is None:
        return
    if not isinstance(first, int):
        missing = "not specified" if first is None else "non-numeric"
        causes.append(invalid(path, last, f"may not be specified when `port` is {missing}"))
        return
    if last < first:
        causes.append(invalid(path, last, "must be greater than or equal to `port`"))
    port_number(path, last, causes)


def _one_kind(path: str, peer: Object, causes: Causes) -> None:
    is_block = peer.get("ipBlock") is not None
    is_selected = peer.get("podSelector") is not None or peer.get("namespaceSelector") is not None
    if is_block and is_selected:
        causes.append(forbidden(path, "may not specify both ipBlock and another peer"))
    elif not is_block and not is_selected:
        causes.append(required(path, "must specify a peer"))


PORTS = each(together(Ordered(protocol=one_of("TCP", "UDP", "SCTP", empty=True), port=port), _last_port))


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    """Return the network of a CIDR; None if it is none."""
    if cidr_faults(text):
        return None
    host, _, bits = text.partition("/")
    return ipaddress.ip_network(f"{address(host)}/{bits.lstrip('0') or 0}", strict=False)


_cidr = texts(strict_cidr_faults, empty=True)


def _without(path: str, block: Object, causes: Causes) -> None:
    """Check that what a block leaves out is a smaller part of it."""
    if (whole := _network(block.get("cidr") or "")) is None:
        return
    for index, text in enumerate(block.get("except") or ()):
        where = f"{path}.except[{index}]"
        _cidr(where, text, causes)
        part = _network(text)
        if part is not None and (part.network_address not in whole or part.prefixlen <= whole.prefixlen):
            causes.append(invalid(where, text, "must be a strict subset of `cidr`"))


def _types(path: str, types: list[str], causes: Causes) -> None:
    if len(types) > 2:
        causes.append(invalid(path, types, "may not specify more than two policyTypes"))
    else:
        each(one_of(INGRESS, EGRESS, empty=True))(path, types, causes)


BLOCK = together(Ordered("cidr", cidr=needed(_cidr)), _without)
PEERS = each(together(Ordered(podSelector=label_selector, namespaceSelector=label_selector, ipBlock=BLOCK), _one_kind))


class _NetworkPolicyStrategy(Strategy):
    has_generation = True
    rules = Ordered(
        spec=Ordered(
            podSelector=label_selector,
            ingress=each(Ordered(**{"ports": PORTS, "from": PEERS})),
            egress=each(Ordered(ports=PORTS, to=PEERS)),
            policyTypes=_types,
        )
    )

    def default(self, obj: Object) -> None:
        spec = obj["spec"] = obj.get("spec") or {}
        for rule in (*items(spec, "ingress"), *items(spec, "egress")):
            for value in items(rule, "ports"):
                value.setdefault("protocol", "TCP")
        if not spec.get("policyTypes"):
            spec["policyTypes"] = [INGRESS, EGRESS] if spec.get("egress") else [INGRESS]

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return [NOT_ENFORCED] if old is None else []


NETWORK_POLICIES = Served(
    **asdict(kinds.NETWORKPOLICIES),
    strategy=_NetworkPolicyStrategy(),
    columns=(NAME, Column("Pod-Selector", selector("spec", "podSelector")), AGE),
)

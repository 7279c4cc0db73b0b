"""IPAddresses and ServiceCIDRs, stored for kube-controller-manager: addresses are allocated without them."""

import ipaddress

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, invalid
from protocols.kinds.check.table import Causes, Ordered, Struct, each, needed, texts, together
from protocols.kinds.check.values import strict_cidr_faults
from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import at

GROUP = "networking.k8s.io"
CANONICAL = "must be a valid IP address in canonical form, (e.g. 10.9.8.7 or 2001:db8::ffff)"
ONE_EACH = "may specify no more than one IP for each IP family, i.e. 192.168.0.0/24 and 2001:db8::/64"


def _canonical_faults(text: str) -> list[str]:
    try:
        return [] if str(ipaddress.ip_address(text)) == text else [CANONICAL]
    except ValueError:
        return [CANONICAL]


def _network_faults(text: str) -> list[str]:
    if faults := strict_cidr_faults(text):
        return faults
    canonical = str(ipaddress.ip_network(text))
    return [] if text == canonical else [f'must be in canonical form ("{canonical}")']


class _AddressStrategy(Strategy):
    rules = Ordered(
        metadata=Ordered("name", name=texts(_canonical_faults, empty=True)),
        spec=Ordered("parentRef", parentRef=needed(Struct("resource name"))),
    )
    immutable = ("spec",)


def _one_each(path: str, cidrs: list[str], causes: Causes) -> None:
    if len({":" in text for text in cidrs}) < len(cidrs):
        causes.append(invalid(path, cidrs, ONE_EACH))


_network = texts(_network_faults, empty=True)


class _CidrStrategy(Strategy):
    has_status = True
    rules = Ordered(
        spec=Ordered("cidrs", cidrs=needed(together(each(_network, limit=2), _one_each), "at least one CIDR required"))
    )

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Allow a single CIDR to be joined by one of the other family."""
        now, before = at(new, "spec", "cidrs") or [], at(old, "spec", "cidrs") or []
        if now == before:
            return []
        grown = len(before) == 1 and len(now) == 2 and now[0] == before[0]
        return self.validate_create(new) if grown else [invalid("spec.cidrs", now, "field is immutable")]


def _parent(obj: Object) -> str:
    parent = at(obj, "spec", "parentRef") or {}
    parts = (parent.get("resource"), parent.get("group"))
    return "/".join(filter(None, (".".join(filter(None, parts)), parent.get("namespace"), parent.get("name"))))


ADDRESSES = Served(
    **asdict(kinds.IPADDRESSES),
    strategy=_AddressStrategy(),
    free_names=True,
    columns=(NAME, Column("ParentRef", _parent), AGE),
)

CIDRS = Served(
    **asdict(kinds.SERVICECIDRS),
    strategy=_CidrStrategy(),
    columns=(NAME, Column("CIDRs", lambda obj: ",".join(at(obj, "spec", "cidrs") or [])), AGE),
    subresources=(Subresource("status", STATUS_VERBS, "ServiceCIDR", GROUP, "v1"),),
)

ROWS = (ADDRESSES, CIDRS)

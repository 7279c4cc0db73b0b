"""IPAddresses and ServiceCIDRs, stored for kube-controller-manager: addresses are allocated without them."""

import ipaddress

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, invalid, required, too_many
from protocols.kinds.check.table import changed_causes
from protocols.kinds.check.values import cidr_faults
from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import at

GROUP = "networking.k8s.io"
CANONICAL = "must be a valid IP address in canonical form, (e.g. 10.9.8.7 or 2001:db8::ffff)"
ONE_EACH = "may specify no more than one IP for each IP family, i.e. 192.168.0.0/24 and 2001:db8::/64"


class _AddressStrategy(Strategy):
    def validate_create(self, obj: Object) -> list[Cause]:
        name, parent = obj["metadata"].get("name") or "", at(obj, "spec", "parentRef") or {}
        causes = [] if _is_canonical(name) else [invalid("metadata.name", name, CANONICAL)]
        if not parent:
            return [*causes, required("spec.parentRef")]
        return causes + [required(f"spec.parentRef.{field}") for field in ("resource", "name") if not parent.get(field)]

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        return changed_causes(new, old, "spec")


def _is_canonical(text: str) -> bool:
    try:
        return str(ipaddress.ip_address(text)) == text
    except ValueError:
        return False


class _CidrStrategy(Strategy):
    has_status = True

    def validate_create(self, obj: Object) -> list[Cause]:
        path, cidrs = "spec.cidrs", at(obj, "spec", "cidrs") or []
        if not cidrs:
            return [required(path, "at least one CIDR required")]
        if len(cidrs) > 2:
            return [too_many(path, len(cidrs), 2)]
        faults = [
            invalid(f"{path}[{index}]", text, fault) for index, text in enumerate(cidrs) for fault in cidr_faults(text)
        ]
        if not faults and len({":" in text for text in cidrs}) < len(cidrs):
            faults.append(invalid(path, cidrs, ONE_EACH))
        return faults

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

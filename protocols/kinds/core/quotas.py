"""ResourceQuotas. Messages equal upstream's.

Admission charges `status.used` before it stores an object, and the quota controller recalculates it.
"""

from typing import Any

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, invalid, required
from protocols.kinds.check.selectors import NO_OPERATOR, SETS
from protocols.kinds.check.table import Causes, Struct
from protocols.kinds.core.quota_names import COMPUTE, COUNTS, is_quota_name, standard_name
from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kube.meta import Object
from protocols.kube.objects import at, items
from protocols.kube.quantity import parse_quantity
from protocols.kube.resource_names import is_extended
from protocols.quota.scopes import BEST_EFFORT, EXISTS_ONLY, SCOPES, VOLUME_ATTRIBUTES_CLASS

NOT_FOR_QUOTA = "must be a standard resource for quota"
NOT_APPLICABLE = "unsupported scope applied to resource"
MUST_EXIST = (
    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
SOME = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
NONE = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
CONFLICTING = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
POD_RESOURCES = frozenset(("pods", *COMPUTE))
CLAIM_RESOURCES = frozenset(("persistentvolumeclaims", "requests.storage"))


def _amounts(path: str, amounts: Object, causes: Causes) -> None:
    for name, value in amounts.items():
        where, amount = f"{path}[{name}]", parse_quantity(value)
        standard_name(where, name, causes)
        if "/" not in name and not is_quota_name(name):
            causes.append(invalid(where, name, NOT_FOR_QUOTA))
        if amount.nanos < 0:
            causes.append(invalid(where, str(amount), "must be greater than or equal to 0"))
        if amount.milli() % 1000 and (name in COUNTS or is_extended(name)):
            causes.append(invalid(where, str(amount), "must be an integer"))


def _may_limit(scope: str, resource: str) -> bool:
    """Return False if upstream limits this standard resource never by the scope."""
    if not is_quota_name(resource):
        return True
    if scope == VOLUME_ATTRIBUTES_CLASS:
        return resource in CLAIM_RESOURCES
    return resource == "pods" if scope == BEST_EFFORT else resource in POD_RESOURCES


def _together(path: str, shown: Any, scopes: set[str], spec: Object, causes: Causes) -> None:
    """Check scopes with the resources that they limit and with each other; each mistake is reported once."""
    if not all(_may_limit(scope, resource) for scope in scopes & set(SCOPES) for resource in spec.get("hard") or ()):
        causes.append(invalid(path, shown, NOT_APPLICABLE))
    causes.extend(
        invalid(path, spec.get("scopes") or [], "conflicting scopes") for pair in CONFLICTING if pair <= scopes
    )


def _scopes(path: str, spec: Object, causes: Causes) -> None:
    scopes = spec.get("scopes") or []
    if not set(scopes) <= set(SCOPES):
        causes.append(invalid(f"{path}.scopes", scopes, "unsupported scope"))
    _together(f"{path}.scopes", scopes, set(scopes), spec, causes)
    terms, path = items(spec, "scopeSelector", "matchExpressions"), f"{path}.scopeSelector.matchExpressions"
    for term in terms:
        _term(path, term, causes)
    _together(path, spec.get("scopeSelector"), {term.get("scopeName") or "" for term in terms}, spec, causes)


def _term(path: str, term: Object, causes: Causes) -> None:
    scope, operator, values = term.get("scopeName") or "", term.get("operator") or "", term.get("values") or []
    if scope not in SCOPES:
        causes.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
    if scope in EXISTS_ONLY and operator != "Exists":
        causes.append(invalid(f"{path}.operator", operator, MUST_EXIST))
    if operator not in SETS:
        causes.append(invalid(f"{path}.operator", operator, NO_OPERATOR))
    elif operator in ("In", "NotIn") and not values:
        causes.append(required(f"{path}.values", SOME))
    elif operator in ("Exists", "DoesNotExist") and values:
        causes.append(invalid(f"{path}.values", values, NONE))


class QuotaStrategy(Strategy):
    """ResourceQuotas: scopes are immutable, hard limits are not."""

    has_status = True
    rules = Struct(spec=Struct(also=_scopes, hard=_amounts))
    status_rules = Struct(status=Struct(hard=_amounts, used=_amounts))

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {}

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes, scopes = self.validate_create(new), at(new, "spec", "scopes") or []
        if set(scopes) != set(at(old, "spec", "scopes") or []):
            causes.append(invalid("spec.scopes", scopes, "field is immutable"))
        return causes


def usage(limits: bool) -> Column:
    """Return the column of limits, or that of requests and counts."""

    def shown(obj: Object) -> str:
        hard, used = at(obj, "status", "hard") or {}, at(obj, "status", "used") or {}
        names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return Column("Limit" if limits else "Request", shown)


QUOTAS = Served(
    **asdict(kinds.RESOURCEQUOTAS),
    strategy=QuotaStrategy(),
    columns=(NAME, usage(limits=False), usage(limits=True), AGE),
    subresources=(Subresource("status", STATUS_VERBS, "ResourceQuota", version="v1"),),
    returns_object=True,
)

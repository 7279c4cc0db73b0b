"""ResourceQuotas. Messages equal upstream's.

Admission charges `status.used` before it stores an object, and the quota controller recalculates it.
"""

from collections.abc import Iterator
from itertools import chain, islice

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import MAX_CAUSES, Cause, invalid, required
from protocols.kinds.core.quota_names import COMPUTE, COUNTS, is_quota_name, standard_faults
from protocols.kinds.served.columns import AGE, NAME
from protocols.kinds.served.row import STATUS_VERBS, Column, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kube.errors import QuantityInvalid
from protocols.kube.meta import Object
from protocols.kube.objects import at, items
from protocols.kube.quantity import parse_quantity
from protocols.kube.resource_names import is_extended
from protocols.quota.scopes import BEST_EFFORT, EXISTS_ONLY, SCOPES, VOLUME_ATTRIBUTES_CLASS

NEGATIVE = "must be greater than or equal to 0"
QUANTITY_TEXT = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
NOT_FOR_QUOTA = "must be a standard resource for quota"
NOT_APPLICABLE = "unsupported scope applied to resource"
MUST_EXIST = (
    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
SOME = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
NONE = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
MOST_CAUSES = MAX_CAUSES + 1
"""One more than an answer shows: a cause shows all scopes, so that more of them take time that grows as a square."""
CONFLICTING = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
POD_RESOURCES = frozenset(("pods", *COMPUTE))
CLAIM_RESOURCES = frozenset(("persistentvolumeclaims", "requests.storage"))


class QuotaStrategy(Strategy):
    """ResourceQuotas: scopes are immutable, hard limits are not."""

    has_status = True

    def prepare_create(self, obj: Object) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Object) -> list[Cause]:
        spec = obj.get("spec") or {}
        causes = chain(_amount_causes("spec.hard", spec.get("hard") or {}), _scope_causes(spec), _selector_causes(spec))
        return list(islice(causes, MOST_CAUSES))

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes, scopes = self.validate_create(new), at(new, "spec", "scopes") or []
        if set(scopes) != set(at(old, "spec", "scopes") or []):
            causes.append(invalid("spec.scopes", scopes, "field is immutable"))
        return causes

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        status = new.get("status") or {}
        return [c for name in ("hard", "used") for c in _amount_causes(f"status.{name}", status.get(name) or {})]


def _amount_causes(path: str, amounts: Object) -> Iterator[Cause]:
    for name, value in amounts.items():
        where = f"{path}[{name}]"
        yield from (invalid(where, name, fault) for fault in standard_faults(name))
        if "/" not in name and not is_quota_name(name):
            yield invalid(where, name, NOT_FOR_QUOTA)
        try:
            amount = parse_quantity(value)
        except QuantityInvalid:
            yield invalid(where, value, QUANTITY_TEXT)
            continue
        if amount.nanos < 0:
            yield invalid(where, str(amount), NEGATIVE)
        if amount.milli() % 1000 and (name in COUNTS or is_extended(name)):
            yield invalid(where, str(amount), "must be an integer")


def _applies(scope: str, resource: str) -> bool:
    """Return False if upstream limits this standard resource never by the scope."""
    if not is_quota_name(resource):
        return True
    if scope == VOLUME_ATTRIBUTES_CLASS:
        return resource in CLAIM_RESOURCES
    return resource == "pods" if scope == BEST_EFFORT else resource in POD_RESOURCES


def _unlimited(spec: Object) -> dict[str, list[str]]:
    """Return the resources of a quota that each scope never limits."""
    names = sorted(spec.get("hard") or {})
    return {scope: [name for name in names if not _applies(scope, name)] for scope in SCOPES}


def _scope_causes(spec: Object) -> Iterator[Cause]:
    scopes, unlimited = spec.get("scopes") or [], _unlimited(spec)
    for scope in scopes:
        if scope not in SCOPES:
            yield invalid("spec.scopes", scopes, "unsupported scope")
        for _ in unlimited.get(scope, ()):
            yield invalid("spec.scopes", scopes, NOT_APPLICABLE)
    yield from _conflicts("spec.scopes", scopes, scopes)


def _conflicts(path: str, scopes: list[str], shown: list[str]) -> Iterator[Cause]:
    for pair in CONFLICTING:
        if set(pair) <= set(scopes):
            yield invalid(path, shown, "conflicting scopes")


def _selector_causes(spec: Object) -> Iterator[Cause]:
    path, terms = "spec.scopeSelector.matchExpressions", items(spec, "scopeSelector", "matchExpressions")
    unlimited = _unlimited(spec)
    for term in terms:
        scope, operator, values = term.get("scopeName") or "", term.get("operator") or "", term.get("values") or []
        if scope not in SCOPES:
            yield invalid(f"{path}.scopeName", scope, "unsupported scope")
        for _ in unlimited.get(scope, ()):
            yield invalid(path, spec["scopeSelector"], NOT_APPLICABLE)
        if scope in EXISTS_ONLY and operator != "Exists":
            yield invalid(f"{path}.operator", operator, MUST_EXIST)
        yield from _operator_causes(path, operator, values)
    yield from _conflicts(path, [str(term.get("scopeName")) for term in terms], spec.get("scopes") or [])


def _operator_causes(path: str, operator: str, values: list[str]) -> Iterator[Cause]:
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", SOME)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield invalid(f"{path}.values", values, NONE)
    else:
        yield invalid(f"{path}.operator", operator, "not a valid selector operator")


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

"""Roles and bindings: rule validation; roleRef is immutable."""

from collections.abc import Callable

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, invalid
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import Causes, Check, Ordered, anything, causes_of, each, needed, one_of, together
from protocols.kinds.check.values import path_segment, subdomain
from protocols.kinds.rbac.policy_rule import GROUP
from protocols.kinds.served.columns import AGE, CREATED, NAME
from protocols.kinds.served.row import Column, Served
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.table import Resource
from protocols.kube.meta import Object
from protocols.kube.objects import items, text

ANY_RULE = Ordered("verbs", verbs=needed(anything, "verbs must contain at least one value"))
RESOURCE_RULE = Ordered(
    "apiGroups resources",
    apiGroups=needed(anything, "resource rules must supply at least one api group"),
    resources=needed(anything, "resource rules must supply at least one resource"),
)
NO_URLS = "namespaced rules cannot apply to non-resource URLs"
ONE_KIND = "rules cannot apply to both regular resources and non-resource URLs"


def _rule(path: str, rule: Object, causes: Causes) -> None:
    ANY_RULE(path, rule, causes)
    urls = rule.get("nonResourceURLs")
    if not urls:
        RESOURCE_RULE(path, rule, causes)
    elif any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
        causes.append(invalid(f"{path}.nonResourceURLs", urls, ONE_KIND))


def _no_urls(path: str, urls: list[str], causes: Causes) -> None:
    if urls:
        causes.append(invalid(path, urls, NO_URLS))


def _selector(path: str, selector: Object, causes: Causes) -> None:
    """Check a selector of roles. Upstream reports a wrong one as a whole, too."""
    if faults := causes_of(label_selector, path, selector):
        causes += [*faults, invalid(path, selector, faults[0].message)]


_selectors = needed(each(_selector), "at least one clusterRoleSelector required if aggregationRule is non-nil")


class _RoleStrategy(Strategy):
    rules = Ordered(rules=each(together(_rule, Ordered(nonResourceURLs=_no_urls))))


class _ClusterRoleStrategy(Strategy):
    rules = Ordered(rules=each(_rule), aggregationRule=Ordered("clusterRoleSelectors", clusterRoleSelectors=_selectors))


def _subject(account: Ordered) -> Check:
    """Return the check of a subject of a binding, with that of a service account."""
    person = Ordered("name apiGroup", name=needed(anything), apiGroup=one_of(GROUP, empty=True))
    by_kind = {"Group": person, "ServiceAccount": account, "User": person}
    other = Ordered("name kind", name=needed(anything), kind=one_of(*by_kind, empty=True))
    return lambda path, subject, causes: by_kind.get(subject.get("kind") or "", other)(path, subject, causes)


_ACCOUNT = Ordered("name apiGroup", name=needed(subdomain), apiGroup=one_of(""))
_ACCOUNT_OF_CLUSTER = Ordered(
    "name apiGroup namespace", name=needed(subdomain), apiGroup=one_of(""), namespace=needed(anything)
)


def _binding(account: Ordered, *kinds: str) -> Ordered:
    """Return the checks of a binding whose roleRef names one of `kinds`."""
    role = Ordered(
        "apiGroup kind name",
        apiGroup=one_of(GROUP, empty=True),
        kind=one_of(*kinds, empty=True),
        name=needed(path_segment),
    )
    return Ordered("roleRef={}", roleRef=role, subjects=each(_subject(account)))


class _BindingStrategy(Strategy):
    rules = _binding(_ACCOUNT, "ClusterRole", "Role")

    def default(self, obj: Object) -> None:
        if reference := obj.get("roleRef"):
            reference["apiGroup"] = reference.get("apiGroup") or GROUP
        for subject in items(obj, "subjects"):
            if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
                subject["apiGroup"] = GROUP

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate_create(new)
        if new.get("roleRef") != old.get("roleRef"):
            causes.append(invalid("roleRef", new.get("roleRef"), "cannot change roleRef"))
        return causes


class _ClusterBindingStrategy(_BindingStrategy):
    rules = _binding(_ACCOUNT_OF_CLUSTER, "ClusterRole")


def _role(obj: Object) -> str:
    return f"{text(obj, 'roleRef', 'kind')}/{text(obj, 'roleRef', 'name')}"


def _subjects(kind: str) -> Callable[[Object], str]:
    def cell(obj: Object) -> str:
        fields = ("namespace", "name") if kind == "ServiceAccount" else ("name",)
        subjects = (subject for subject in items(obj, "subjects") if subject.get("kind") == kind)
        return ", ".join("/".join(text(subject, field) for field in fields) for subject in subjects)

    return cell


ROLE_COLUMNS = (NAME, CREATED)
BINDING_COLUMNS = (
    NAME,
    Column("Role", _role),
    AGE,
    Column("Users", _subjects("User"), 1),
    Column("Groups", _subjects("Group"), 1),
    Column("ServiceAccounts", _subjects("ServiceAccount"), 1),
)


def _row(row: Resource, strategy: Strategy, columns: tuple[Column, ...]) -> Served:
    return Served(**asdict(row), strategy=strategy, columns=columns, free_names=True)


ROWS = (
    _row(kinds.ROLES, _RoleStrategy(), ROLE_COLUMNS),
    _row(kinds.ROLEBINDINGS, _BindingStrategy(), BINDING_COLUMNS),
    _row(kinds.CLUSTERROLES, _ClusterRoleStrategy(), ROLE_COLUMNS),
    _row(kinds.CLUSTERROLEBINDINGS, _ClusterBindingStrategy(), BINDING_COLUMNS),
)

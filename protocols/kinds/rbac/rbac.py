"""Roles and bindings: rule validation; roleRef is immutable."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import asdict

from protocols.kinds import table as kinds
from protocols.kinds.check.causes import Cause, invalid, required, unsupported
from protocols.kinds.check.selectors import label_selector
from protocols.kinds.check.table import causes_of
from protocols.kinds.rbac.policy_rule import GROUP
from protocols.kinds.served.columns import AGE, CREATED, NAME
from protocols.kinds.served.row import Column, Served
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.table import Resource
from protocols.kube.meta import Object
from protocols.kube.names import path_segment_fault, subdomain_faults
from protocols.kube.objects import at, items, text

SUBJECTS = ("Group", "ServiceAccount", "User")
RULE_LISTS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")


def _strings(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def _objects(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(item, dict) for item in value))


class _RoleStrategy(Strategy):
    def __init__(self, namespaced: bool) -> None:
        self._namespaced = namespaced

    def validate_create(self, obj: Object) -> list[Cause]:
        if not _objects(obj.get("rules")):
            return [invalid("rules", obj["rules"], "must be a list of rules")]
        causes = [
            cause
            for index, rule in enumerate(obj.get("rules") or ())
            for cause in _rule_causes(rule, f"rules[{index}]", self._namespaced)
        ]
        return causes if self._namespaced else causes + _aggregation_causes(obj)


def _rule_causes(rule: Object, path: str, namespaced: bool) -> list[Cause]:
    wrong = [field for field in RULE_LISTS if not _strings(rule.get(field))]
    if wrong:
        return [invalid(f"{path}.{field}", rule[field], "must be a list of strings") for field in wrong]
    causes = [] if rule.get("verbs") else [required(f"{path}.verbs", "verbs must contain at least one value")]
    if rule.get("nonResourceURLs"):
        return causes + _url_causes(rule, f"{path}.nonResourceURLs", namespaced)
    if not rule.get("apiGroups"):
        causes.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        causes.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return causes


def _url_causes(rule: Object, path: str, namespaced: bool) -> list[Cause]:
    urls = rule["nonResourceURLs"]
    causes = []
    if namespaced:
        causes.append(invalid(path, urls, "namespaced rules cannot apply to non-resource URLs"))
    if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
        causes.append(invalid(path, urls, "rules cannot apply to both regular resources and non-resource URLs"))
    return causes


def _aggregation_causes(obj: Object) -> list[Cause]:
    aggregation = obj.get("aggregationRule")
    if aggregation is None:
        return []
    path = "aggregationRule.clusterRoleSelectors"
    selectors = at(aggregation, "clusterRoleSelectors")
    if not selectors or not _objects(selectors):
        return [required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")]
    found = list[Cause]()
    for index, selector in enumerate(selectors):
        causes = causes_of(label_selector, f"{path}[{index}]", selector)
        found += [*causes, invalid(f"{path}[{index}]", selector, causes[0].message)] if causes else []
    return found


class _BindingStrategy(Strategy):
    def __init__(self, kinds: tuple[str, ...]) -> None:
        self._kinds = kinds
        """Kinds of role that roleRef may name."""

    def default(self, obj: Object) -> None:
        reference = obj.get("roleRef")
        if isinstance(reference, dict) and not reference.get("apiGroup"):
            reference["apiGroup"] = GROUP
        for subject in items(obj, "subjects"):
            if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
                subject["apiGroup"] = GROUP

    def validate_create(self, obj: Object) -> list[Cause]:
        causes = self._role_causes(obj.get("roleRef"))
        if not _objects(obj.get("subjects")):
            return [*causes, invalid("subjects", obj["subjects"], "must be a list of subjects")]
        for index, subject in enumerate(obj.get("subjects") or ()):
            causes += _subject_causes(subject, f"subjects[{index}]", len(self._kinds) > 1)
        return causes

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        causes = self.validate_create(new)
        if new.get("roleRef") != old.get("roleRef"):
            causes.append(invalid("roleRef", new.get("roleRef"), "cannot change roleRef"))
        return causes

    def _role_causes(self, reference: Any) -> list[Cause]:
        if not isinstance(reference, dict):
            return [required("roleRef")]
        causes = []
        if reference.get("apiGroup") != GROUP:
            causes.append(unsupported("roleRef.apiGroup", reference.get("apiGroup"), (GROUP,)))
        if reference.get("kind") not in self._kinds:
            causes.append(unsupported("roleRef.kind", reference.get("kind") or "", self._kinds))
        if not isinstance(reference.get("name"), str) or not reference["name"]:
            causes.append(required("roleRef.name"))
        elif fault := path_segment_fault(str(reference["name"])):
            causes.append(invalid("roleRef.name", reference["name"], fault))
        return causes


def _subject_causes(subject: Object, path: str, namespaced: bool) -> list[Cause]:
    """Validate a subject; an account of a `namespaced` binding is by default in its namespace."""
    wrong = [
        field for field in ("kind", "name", "namespace", "apiGroup") if not isinstance(subject.get(field, ""), str)
    ]
    if wrong:
        return [invalid(f"{path}.{field}", subject[field], "must be a string") for field in wrong]
    causes = [] if subject.get("name") else [required(f"{path}.name")]
    kind, group = subject.get("kind", ""), subject.get("apiGroup", "")
    if kind not in SUBJECTS:
        return [*causes, unsupported(f"{path}.kind", kind, SUBJECTS)]
    wanted = "" if kind == "ServiceAccount" else GROUP
    if group != wanted:
        causes.append(unsupported(f"{path}.apiGroup", group, (wanted,)))
    if kind == "ServiceAccount":
        name = subject.get("name") or ""
        causes += [invalid(f"{path}.name", name, fault) for fault in (subdomain_faults(name) if name else ())]
        causes += [] if namespaced or subject.get("namespace") else [required(f"{path}.namespace")]
    return causes


def _role(obj: Object) -> str:
    return f"{text(obj, 'roleRef', 'kind')}/{text(obj, 'roleRef', 'name')}"


def _subjects(kind: str) -> Callable[[Object], str]:
    def cell(obj: Object) -> str:
        found = [subject for subject in items(obj, "subjects") if subject.get("kind") == kind]
        account = kind == "ServiceAccount"
        names = (f"{text(s, 'namespace')}/{text(s, 'name')}" if account else text(s, "name") for s in found)
        return ", ".join(names)

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
    return Served(
        **asdict(row),
        strategy=strategy,
        columns=columns,
        free_names=True,
    )


ROWS = (
    _row(kinds.ROLES, _RoleStrategy(namespaced=True), ROLE_COLUMNS),
    _row(kinds.ROLEBINDINGS, _BindingStrategy(("ClusterRole", "Role")), BINDING_COLUMNS),
    _row(kinds.CLUSTERROLES, _RoleStrategy(namespaced=False), ROLE_COLUMNS),
    _row(kinds.CLUSTERROLEBINDINGS, _BindingStrategy(("ClusterRole",)), BINDING_COLUMNS),
)

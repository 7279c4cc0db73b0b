"""Validate a definition apart from its versions (version_rules.py). Messages equal upstream's."""

from collections.abc import Iterable

from protocols.kinds.check.causes import Cause, forbidden, invalid, required, unsupported
from protocols.kinds.custom.definitions.version_rules import version_causes
from protocols.kube.meta import Object
from protocols.kube.names import dns1035_faults, subdomain_faults
from protocols.kube.objects import at, items, text
from protocols.kube.request_uri import uri_fault

SCOPES = ("Cluster", "Namespaced")
MIXED = "may have mixed case, but should otherwise match: "
APPROVAL = "api-approved.kubernetes.io"
APPROVALS = "https://github.com/kubernetes/enhancements/pull/1111"
NO_WEBHOOK = "not supported: this server calls no conversion webhooks; use None, which changes the apiVersion only"
STORED = (
    "missing from spec.versions; {0} was previously a storage version, and must remain in spec.versions until a "
    "storage migration ensures no data remains persisted in {0} and removes {0} from status.storedVersions"
)
UNKNOWN_FIELDS = (
    "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
)


def definition_causes(obj: Object, old: Object | None = None) -> list[Cause]:
    """Check a definition; `old` is the stored one on an update, whose name and approval are not checked again."""
    causes = [*([] if old else _name_causes(obj)), *_group_causes(obj), *_scope_causes(obj), *version_causes(obj)]
    causes += [*_names_causes(obj), *_conversion_causes(obj), *_approval_causes(obj, old)]
    if at(obj, "spec", "preserveUnknownFields"):
        causes.append(invalid("spec.preserveUnknownFields", True, UNKNOWN_FIELDS))
    return causes


def changed_causes(new: Object, old: Object, established: bool) -> list[Cause]:
    """Reject changes to immutable fields: stored objects and their keys depend on them."""
    paths = [("spec", "group"), ("spec", "names", "plural")]
    if established:
        paths = [("spec", "scope"), ("spec", "names", "kind"), *paths]
    changed = [path for path in paths if at(new, *path) != at(old, *path)]
    return [invalid(".".join(path), at(new, *path), "field is immutable") for path in changed]


def stored_causes(obj: Object) -> list[Cause]:
    """Require that storedVersions lists the storage version and only versions of the spec."""
    versions = items(obj, "spec", "versions")
    names = {text(each, "name") for each in versions}
    stored = at(obj, "status", "storedVersions") or []
    path = "status.storedVersions"
    if not stored:
        return [invalid(path, stored, "must have at least one stored version")]
    written = [text(each, "name") for each in versions if each.get("storage")]
    causes = [invalid(path, stored, f"must have the storage version {name}") for name in written if name not in stored]
    gone = [(index, name) for index, name in enumerate(stored) if name not in names]
    return causes + [invalid(f"{path}[{index}]", name, STORED.format(name)) for index, name in gone]


def _name_causes(obj: Object) -> list[Cause]:
    wanted = f"{text(obj, 'spec', 'names', 'plural')}.{text(obj, 'spec', 'group')}"
    name = text(obj, "metadata", "name")
    return (
        []
        if name == wanted or not name
        else [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]
    )


def _group_causes(obj: Object) -> list[Cause]:
    group = text(obj, "spec", "group")
    if not group:
        return [required("spec.group")]
    if faults := subdomain_faults(group):
        return [invalid("spec.group", group, ",".join(faults))]
    return [] if "." in group else [invalid("spec.group", group, "should be a domain with at least one dot")]


def _scope_causes(obj: Object) -> list[Cause]:
    scope = text(obj, "spec", "scope")
    if scope in SCOPES:
        return []
    return [unsupported("spec.scope", scope, SCOPES) if scope else required("spec.scope")]


def _names_causes(obj: Object) -> list[Cause]:
    names = {field: text(obj, "spec", "names", field) for field in ("plural", "singular", "kind", "listKind")}
    causes = [required(f"spec.names.{field}") for field, name in names.items() if not name]
    causes += [cause for field, name in names.items() if name for cause in _one_name(f"spec.names.{field}", name)]
    causes += _words(obj, "shortNames")
    if names["kind"] and names["kind"] == names["listKind"]:
        causes.append(invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same"))
    return causes + _words(obj, "categories")


def _words(obj: Object, field: str) -> list[Cause]:
    words = at(obj, "spec", "names", field) or ()
    return [cause for index, word in enumerate(words) for cause in _one_name(f"spec.names.{field}[{index}]", str(word))]


def _one_name(path: str, value: str) -> list[Cause]:
    mixed = path.endswith(("kind", "Kind"))
    faults = ",".join(dns1035_faults(value.lower() if mixed else value))
    return [invalid(path, value, f"{MIXED if mixed else ''}{faults}")] if faults else []


def _conversion_causes(obj: Object) -> list[Cause]:
    strategy, webhook = text(obj, "spec", "conversion", "strategy"), at(obj, "spec", "conversion", "webhook")
    path = "spec.conversion"
    if strategy == "Webhook":
        return [invalid(f"{path}.strategy", strategy, NO_WEBHOOK)]
    causes = [] if strategy else [required(f"{path}.strategy")]
    if strategy not in ("", "None"):
        causes.append(unsupported(f"{path}.strategy", strategy, ("None", "Webhook")))
    for field, name in (("clientConfig", "webhookClientConfig"), ("conversionReviewVersions",) * 2):
        if at(webhook, field):
            causes.append(forbidden(f"{path}.{name}", "should not be set when strategy is not set to Webhook"))
    return causes


def _approval_causes(obj: Object, old: Object | None) -> list[Cause]:
    """Require the approval annotation in protected groups, unless the old object has the same fault."""
    if not is_protected(text(obj, "spec", "group")):
        return []
    value = text(obj, "metadata", "annotations", APPROVAL)
    state, detail = approval(value)
    if state in ("approved", "bypassed") or (
        old and state == approval(text(old, "metadata", "annotations", APPROVAL))[0]
    ):
        return []
    path = f"metadata.annotations[{APPROVAL}]"
    return [required(path, detail) if state == "missing" else invalid(path, value, detail)]


def approval(value: str) -> tuple[str, str]:
    """Return the state of a protected group's annotation and a message.

    The state is approved, bypassed, missing or invalid.
    """
    wanted = f'protected groups must have approval annotation "{APPROVAL}"'
    if not value:
        return "missing", f"{wanted}, see {APPROVALS}"
    if value.startswith("unapproved"):
        return "bypassed", f'not approved: "{value}"'
    scheme, slashes, rest = value.partition("://")
    if scheme and slashes and rest.partition("/")[0] and not uri_fault(value):
        return "approved", f"approved in {value}"
    return "invalid", f'{wanted} with either a URL or a reason starting with "unapproved", see {APPROVALS}'


def is_protected(group: str) -> bool:
    """Return True for the API groups of Kubernetes, which need an approval annotation."""
    roots: Iterable[str] = ("k8s.io", "kubernetes.io")
    return any(group == root or group.endswith(f".{root}") for root in roots)

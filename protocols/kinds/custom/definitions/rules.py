"""Validate a definition apart from its versions (version_rules.py). Messages equal upstream's."""

from collections.abc import Iterable

from protocols.kinds.check.causes import Cause, forbidden, invalid, required
from protocols.kinds.check.table import Causes, Ordered, causes_of, each, needed, one_of, texts, together
from protocols.kinds.custom.definitions.version_rules import version_causes
from protocols.kube.meta import Object
from protocols.kube.names import dns1035_faults, subdomain_faults
from protocols.kube.objects import at, items, text
from protocols.kube.request_uri import uri_fault

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


def _joined(faults: list[str], prefix: str = "") -> list[str]:
    return [prefix + ",".join(faults)] if faults else []


def _group_faults(group: str) -> list[str]:
    if faults := subdomain_faults(group):
        return _joined(faults)
    return [] if "." in group else ["should be a domain with at least one dot"]


def _two_kinds(path: str, names: Object, causes: Causes) -> None:
    if names.get("kind") and names["kind"] == names.get("listKind"):
        causes.append(invalid(f"{path}.listKind", names["listKind"], "kind and listKind may not be the same"))


def _conversion(path: str, conversion: Object, causes: Causes) -> None:
    strategy, webhook = conversion.get("strategy") or "", conversion.get("webhook") or {}
    if strategy == "Webhook":
        causes.append(invalid(f"{path}.strategy", strategy, NO_WEBHOOK))
        return
    _strategy(f"{path}.strategy", strategy, causes)
    for field, name in (("clientConfig", "webhookClientConfig"), ("conversionReviewVersions",) * 2):
        if webhook.get(field):
            causes.append(forbidden(f"{path}.{name}", "should not be set when strategy is not set to Webhook"))


def _dropped(path: str, preserves: bool, causes: Causes) -> None:
    if preserves:
        causes.append(invalid(path, True, UNKNOWN_FIELDS))


_strategy = needed(one_of("None", "Webhook"))
_word = texts(lambda name: _joined(dns1035_faults(name)), empty=True)
_kind = needed(texts(lambda name: _joined(dns1035_faults(name.lower()), MIXED)))
_words = each(_word)
NAMES = Ordered(
    "plural singular kind listKind",
    plural=needed(_word), singular=needed(_word), shortNames=_words, kind=_kind, listKind=_kind, categories=_words,
)  # fmt: skip
RULES = Ordered(
    spec=Ordered(
        "group scope names={} conversion={}",
        group=needed(texts(_group_faults)),
        scope=needed(one_of("Cluster", "Namespaced")),
        names=together(NAMES, _two_kinds),
        conversion=_conversion,
        preserveUnknownFields=_dropped,
    )
)
IMMUTABLE = ("spec.group", "spec.names.plural")
FIXED_ONCE_SERVED = ("spec.scope", "spec.names.kind", *IMMUTABLE)
"""Fields that do not change any more: stored objects and their keys depend on them."""


def definition_causes(obj: Object, old: Object | None = None) -> list[Cause]:
    """Check a definition; `old` is the stored one on an update, whose name and approval are not checked again."""
    causes = [] if old else _name_causes(obj)
    return [*causes, *causes_of(RULES, "", obj), *version_causes(obj), *approval_causes(obj, old)]


def stored_causes(obj: Object) -> list[Cause]:
    """Require that storedVersions lists the storage version and only versions of the spec."""
    versions = items(obj, "spec", "versions")
    names = {text(version, "name") for version in versions}
    stored = at(obj, "status", "storedVersions") or []
    path = "status.storedVersions"
    if not stored:
        return [invalid(path, stored, "must have at least one stored version")]
    written = [text(version, "name") for version in versions if version.get("storage")]
    causes = [invalid(path, stored, f"must have the storage version {name}") for name in written if name not in stored]
    gone = [(index, name) for index, name in enumerate(stored) if name not in names]
    return causes + [invalid(f"{path}[{index}]", name, STORED.format(name)) for index, name in gone]


def _name_causes(obj: Object) -> list[Cause]:
    name = text(obj, "metadata", "name")
    if not name or name == f"{text(obj, 'spec', 'names', 'plural')}.{text(obj, 'spec', 'group')}":
        return []
    return [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def approval_causes(obj: Object, old: Object | None) -> list[Cause]:
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

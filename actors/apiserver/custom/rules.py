"""What a definition must hold, beside its schemas. Words as upstream's."""

from collections.abc import Iterable
from typing import Any

from actors.apiserver.custom.jsonpath import JsonPath, PathInvalid
from actors.apiserver.custom.structural import schema_faults
from actors.apiserver.errors.causes import Cause, forbidden, invalid, required, unsupported
from actors.apiserver.objects.paths import Obj, at, items, text
from protocols.kube.name_rules import DNS1035, DNS1035_TEXT, LABEL, SUBDOMAIN, SUBDOMAIN_TEXT

SCOPES = ("Cluster", "Namespaced")
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
APPROVAL = "api-approved.kubernetes.io"
NO_WEBHOOK = "not supported: this server calls no conversion webhooks; use None, which changes the apiVersion only"


def definition_causes(obj: Obj) -> list[Cause]:
    return [*_name_causes(obj), *_group_causes(obj), *_spec_causes(obj), *_version_causes(obj), *_approval_causes(obj)]


def changed_causes(new: Obj, old: Obj, established: bool) -> list[Cause]:
    """What an update may not touch, for stored objects and their keys depend on it."""
    paths = [("spec", "group"), ("spec", "names", "plural")]
    if established:
        paths += [("spec", "scope"), ("spec", "names", "kind")]
    changed = [path for path in paths if at(new, *path) != at(old, *path)]
    return [invalid(".".join(path), at(new, *path), "field is immutable") for path in changed]


def stored_causes(obj: Obj) -> list[Cause]:
    """No version may go while objects may be stored in it, and the one that is written now must be told."""
    versions = items(obj, "spec", "versions")
    names = {text(each, "name") for each in versions}
    stored = at(obj, "status", "storedVersions") or []
    path = "status.storedVersions"
    if not stored:
        return [invalid(path, stored, "must have at least one stored version")]
    written = [text(each, "name") for each in versions if each.get("storage")]
    causes = [invalid(path, stored, f"must have the storage version {name}") for name in written if name not in stored]
    text_ = "must appear in spec.versions"
    return causes + [invalid(f"{path}[{i}]", name, text_) for i, name in enumerate(stored) if name not in names]


def _name_causes(obj: Obj) -> list[Cause]:
    wanted = f"{text(obj, 'spec', 'names', 'plural')}.{text(obj, 'spec', 'group')}"
    name = text(obj, "metadata", "name")
    return [] if name == wanted else [invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')]


def _group_causes(obj: Obj) -> list[Cause]:
    group = text(obj, "spec", "group")
    if not group:
        return [required("spec.group")]
    if not SUBDOMAIN.fullmatch(group) or len(group) > 253:
        return [invalid("spec.group", group, SUBDOMAIN_TEXT)]
    return [] if "." in group else [invalid("spec.group", group, "should be a domain with at least one dot")]


def _spec_causes(obj: Obj) -> list[Cause]:
    scope, strategy = text(obj, "spec", "scope"), text(obj, "spec", "conversion", "strategy")
    causes = [] if scope in SCOPES else [unsupported("spec.scope", scope, SCOPES) if scope else required("spec.scope")]
    for name in ("plural", "singular", "kind", "listKind"):
        causes += _one_name(name, text(obj, "spec", "names", name))
    for name in ("shortNames", "categories"):
        for index, word in enumerate(at(obj, "spec", "names", name) or ()):
            if not LABEL.fullmatch(str(word)):
                causes.append(invalid(f"spec.names.{name}[{index}]", word, DNS1035_TEXT))
    if at(obj, "spec", "preserveUnknownFields"):
        causes.append(invalid("spec.preserveUnknownFields", True, "must be false"))
    if strategy == "Webhook":
        causes.append(invalid("spec.conversion.strategy", strategy, NO_WEBHOOK))
    elif strategy != "None":
        causes.append(unsupported("spec.conversion.strategy", strategy, ("None", "Webhook")))
    elif at(obj, "spec", "conversion", "webhook") is not None:
        causes.append(forbidden("spec.conversion.webhook", "should not be set when strategy is not set to Webhook"))
    return causes


def _one_name(field: str, value: str) -> list[Cause]:
    path = f"spec.names.{field}"
    if not value:
        return [required(path)]
    low = value.lower() if field in ("kind", "listKind") else value
    return [] if DNS1035.fullmatch(low) and len(low) <= 63 else [invalid(path, value, DNS1035_TEXT)]


def _version_causes(obj: Obj) -> list[Cause]:
    versions = items(obj, "spec", "versions")
    names = [text(version, "name") for version in versions]
    causes = [cause for index, version in enumerate(versions) for cause in _one_version(version, index)]
    if not versions:
        causes.append(required("spec.versions", "must have at least one version"))
    if len(set(names)) < len(names):
        causes.append(invalid("spec.versions", names, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        causes.append(invalid("spec.versions", names, "must have exactly one version marked as storage version"))
    return causes


def _one_version(version: Obj, index: int) -> list[Cause]:
    path, name = f"spec.versions[{index}]", text(version, "name")
    causes = [] if DNS1035.fullmatch(name) and len(name) <= 63 else [invalid(f"{path}.name", name, DNS1035_TEXT)]
    schema = at(version, "schema", "openAPIV3Schema")
    if isinstance(schema, dict):
        causes += schema_faults(schema, f"{path}.schema.openAPIV3Schema")
    else:
        causes.append(required(f"{path}.schema.openAPIV3Schema", "schemas are required"))
    for at_, column in enumerate(items(version, "additionalPrinterColumns")):
        causes += _column_causes(column, f"{path}.additionalPrinterColumns[{at_}]")
    for at_, field in enumerate(items(version, "selectableFields")):
        causes += _selectable_causes(text(field, "jsonPath"), schema, f"{path}.selectableFields[{at_}].jsonPath")
    scale = at(version, "subresources", "scale")
    return causes + (_scale_causes(scale, f"{path}.subresources.scale") if isinstance(scale, dict) else [])


def _column_causes(column: Obj, path: str) -> list[Cause]:
    causes = [required(f"{path}.{field}") for field in ("name", "type") if not text(column, field)]
    kind, form = text(column, "type"), text(column, "format")
    if kind and kind not in COLUMN_TYPES:
        causes.append(invalid(f"{path}.type", kind, f"must be one of {','.join(COLUMN_TYPES)}"))
    if form and form not in FORMATS:
        causes.append(invalid(f"{path}.format", form, f"must be one of {','.join(FORMATS)}"))
    return causes + _path_causes(text(column, "jsonPath"), f"{path}.jsonPath")


def _path_causes(jsonpath: str, path: str) -> list[Cause]:
    if not jsonpath:
        return [required(path)]
    if jsonpath[0] != ".":
        return [invalid(path, jsonpath, "must be a simple json path starting with .")]
    try:
        JsonPath(jsonpath)
    except PathInvalid as error:
        return [invalid(path, jsonpath, str(error))]
    return []


def _scale_causes(scale: Obj, path: str) -> list[Cause]:
    causes = []
    for field, root in (("specReplicasPath", "spec"), ("statusReplicasPath", "status"), ("labelSelectorPath", "")):
        value = text(scale, field)
        if not value and not root:
            continue
        causes += _path_causes(value, f"{path}.{field}")
        if value and root and not value.startswith(f".{root}."):
            causes.append(invalid(f"{path}.{field}", value, f"should be a json path under .{root}"))
        if any(char in value for char in "[]*"):
            causes.append(invalid(f"{path}.{field}", value, "must be a json path in the dot notation"))
    return causes


def _selectable_causes(jsonpath: str, schema: Any, path: str) -> list[Cause]:
    causes = _path_causes(jsonpath, path)
    if causes:
        return causes
    if "[" in jsonpath or jsonpath.startswith(".metadata"):
        return [invalid(path, jsonpath, "must be a simple path to a field that is not in metadata")]
    found = schema
    for step in jsonpath[1:].split("."):
        found = at(found, "properties", step)
    if text(found, "type") not in ("string", "boolean", "integer"):
        return [invalid(path, jsonpath, "must point to a field of type string, boolean or integer in the schema")]
    return []


def _approval_causes(obj: Obj) -> list[Cause]:
    group = text(obj, "spec", "group")
    if not is_protected(group):
        return []
    value = text(obj, "metadata", "annotations", APPROVAL)
    path = f"metadata.annotations[{APPROVAL}]"
    if not value:
        detail = (
            f'protected groups must have approval annotation "{APPROVAL}", '
            "see https://github.com/kubernetes/enhancements/pull/1111"
        )
        return [required(path, detail)]
    if not value.startswith(("https://", "http://", "unapproved")):
        detail = (
            'protected groups must have approval annotation with either a URL or a reason starting with "unapproved"'
        )
        return [invalid(path, value, detail)]
    return []


def is_protected(group: str) -> bool:
    roots: Iterable[str] = ("k8s.io", "kubernetes.io")
    return any(group == root or group.endswith(f".{root}") for root in roots)

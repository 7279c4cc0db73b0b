"""Validate the versions of a definition.

Faults in a part that all versions share are reported once, at its former top-level path, as upstream does.
"""

import unicodedata
from collections.abc import Callable, Iterator
from typing import Any

from protocols.kinds.check.causes import Cause, duplicate, forbidden, invalid, required, too_many
from protocols.kinds.custom.definitions.structural import schema_faults
from protocols.kinds.custom.rule.path import canonical, path_fault, schema_at
from protocols.kube.meta import Object
from protocols.kube.names import dns1035_faults
from protocols.kube.objects import at, items, text

COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
SELECTABLE_TYPES = ("string", "boolean", "integer")
MOST_SELECTABLE = 8
AT_ROOT = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength",
    "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required", "Items", "Properties",
    "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
"""Fields, by their Go names, that the root of a schema may have if the status subresource is enabled."""
MOST_WARNING = 256
NO_SCHEMA = "may only be set when `version.schema.openAPIV3Schema` is not included"
"""Upstream's text, with its mistake."""
Part = Callable[[Object, str], list[Cause]]


def version_causes(obj: Object) -> list[Cause]:
    """Check all versions of a definition: names, schemas, and that one of them is stored."""
    versions = items(obj, "spec", "versions")
    names = [text(version, "name") for version in versions]
    parts = list(_parts(versions))
    causes = [cause for index, version in enumerate(versions) for cause in _missing_schema(version, index)]
    if names and names[0] and (faults := dns1035_faults(names[0])):
        causes.append(invalid("spec.version", names[0], ",".join(faults)))
    for index, version in enumerate(versions):
        path = f"spec.versions[{index}]"
        wrong = ",".join(dns1035_faults(names[index]))
        causes += [invalid(f"{path}.name", names[index], wrong)] if wrong else []
        causes += _warning_causes(version, f"{path}.deprecationWarning")
        causes += [cause for check, name, top in parts if not top for cause in check(version, f"{path}.{name}")]
    if len(set(names)) < len(names):
        causes.append(invalid("spec.versions", names, "must contain unique version names"))
    if sum(bool(version.get("storage")) for version in versions) != 1:
        causes.append(invalid("spec.versions", names, "must have exactly one version marked as storage version"))
    return causes + [cause for check, _, top in parts if top for cause in check(versions[0], f"spec.{top}")]


def _parts(versions: list[Object]) -> Iterator[tuple[Part, str, str]]:
    """Yield for each part its check, its field in a version, and its top-level field if all versions are the same."""
    checks: tuple[tuple[Part, str, str], ...] = (
        (_schema_causes, "schema", "validation"),
        (_subresource_causes, "subresources", "subresources"),
        (_column_causes, "additionalPrinterColumns", "additionalPrinterColumns"),
        (_selectable_causes, "selectableFields", "selectableFields"),
    )
    for check, name, top in checks:
        same = bool(versions) and all(version.get(name) == versions[0].get(name) for version in versions)
        yield check, name, top if same else ""


def _missing_schema(version: Object, index: int) -> list[Cause]:
    has_schema = isinstance(at(version, "schema", "openAPIV3Schema"), dict)
    return [] if has_schema else [required(f"spec.versions[{index}].schema.openAPIV3Schema")]


def _warning_causes(version: Object, path: str) -> list[Cause]:
    detail = version.get("deprecationWarning")
    if not isinstance(detail, str):
        return []
    if not version.get("deprecated"):
        return [invalid(path, detail, "can only be set for deprecated versions")]
    causes = []
    if len(detail.encode()) > MOST_WARNING:
        causes.append(invalid(path, detail, f"must be <= {MOST_WARNING} characters long"))
    if not detail:
        causes.append(invalid(path, detail, "must not be an empty string"))
    strange = next((i for i, char in enumerate(detail) if unicodedata.category(char)[0] in "CZ" and char != " "), None)
    if strange is not None:
        place = len(detail[:strange].encode())
        text_ = f"must only contain printable UTF-8 characters; non-printable character found at index {place}"
        causes.append(invalid(path, detail, text_))
    return causes


def _schema_causes(version: Object, path: str) -> list[Cause]:
    schema, where = at(version, "schema", "openAPIV3Schema"), f"{path}.openAPIV3Schema"
    if not isinstance(schema, dict):
        return []
    causes = _root_causes(schema, where) if isinstance(at(version, "subresources", "status"), dict) else []
    if schema.get("nullable"):
        causes.append(forbidden(f"{where}.nullable", "nullable cannot be true at the root"))
    return causes + schema_faults(schema, where)


def _root_causes(schema: Object, path: str) -> list[Cause]:
    """Reject root keywords: status updates are validated by the `status` part of the schema alone."""
    for name, value in schema.items():
        if name == "type" and value != "object":
            detail = (
                'only "object" is allowed as the type at the root of the schema if the status subresource is enabled'
            )
            return [invalid(f"{path}.type", value, detail)]
        if value not in (None, False, "", 0) and _go_name(name) not in AT_ROOT:
            detail = f"only [{' '.join(AT_ROOT)}] fields are allowed at the root of the schema"
            return [invalid(path, schema, f"{detail} if the status subresource is enabled")]
    return []


def _go_name(name: str) -> str:
    words = name.removeprefix("x-kubernetes-").split("-")
    plain = "".join(word[:1].upper() + word[1:] for word in words)
    return f"X{plain}" if name.startswith("x-kubernetes-") else plain


def _column_causes(version: Object, path: str) -> list[Cause]:
    columns = items(version, "additionalPrinterColumns")
    return [cause for index, column in enumerate(columns) for cause in _one_column(column, f"{path}[{index}]")]


def _one_column(column: Object, path: str) -> list[Cause]:
    kind, form = text(column, "type"), text(column, "format")
    causes = [] if text(column, "name") else [required(f"{path}.name")]
    types = f"must be one of {','.join(COLUMN_TYPES)}"
    if kind not in COLUMN_TYPES:
        causes.append(invalid(f"{path}.type", kind, types) if kind else required(f"{path}.type", types))
    if form and form not in FORMATS:
        causes.append(invalid(f"{path}.format", form, f"must be one of {','.join(FORMATS)}"))
    return causes + _path_causes(text(column, "jsonPath"), f"{path}.JSONPath")


def _path_causes(jsonpath: str, path: str) -> list[Cause]:
    if not jsonpath:
        return [required(path)]
    simple = jsonpath.startswith(".")
    return [] if simple else [invalid(path, jsonpath, "must be a simple json path starting with .")]


def _subresource_causes(version: Object, path: str) -> list[Cause]:
    scale = at(version, "subresources", "scale")
    if not isinstance(scale, dict):
        return []
    causes = _scale_path(scale, "specReplicasPath", (".spec.",), path)
    causes += _scale_path(scale, "statusReplicasPath", (".status.",), path)
    selector = scale.get("labelSelectorPath")
    return causes + (_scale_path(scale, "labelSelectorPath", (".spec.", ".status."), path) if selector else [])


def _scale_path(scale: Object, field: str, roots: tuple[str, ...], path: str) -> list[Cause]:
    value, where = text(scale, field), f"{path}.scale.{field}"
    causes = _path_causes(value, where)
    if causes:
        return causes
    if value.startswith(roots):
        return []
    named = f"under {roots[0][:-1]}" if len(roots) == 1 else "under either .spec or .status"
    return [invalid(where, value, f"should be a json path {named}")]


def _selectable_causes(version: Object, path: str) -> list[Cause]:
    fields, schema = items(version, "selectableFields"), at(version, "schema", "openAPIV3Schema")
    causes: list[Cause] = []
    seen: set[str] = set()
    if fields and not isinstance(schema, dict):
        return [invalid(path, "", NO_SCHEMA)]
    for index, field in enumerate(fields):
        causes += _one_selectable(text(field, "jsonPath"), schema, f"{path}[{index}].jsonPath", seen)
    return causes + ([too_many(path, len(seen), MOST_SELECTABLE)] if len(seen) > MOST_SELECTABLE else [])


def _one_selectable(jsonpath: str, schema: Any, path: str, seen: set[str]) -> list[Cause]:
    if not jsonpath:
        return [required(path)]
    fault = "array notation is not allowed" if "[" in jsonpath else path_fault(jsonpath, schema)
    if fault:
        return [invalid(path, jsonpath, f"is an invalid path: {fault}")]
    causes = []
    name = canonical(jsonpath)
    if f"{name}.".startswith(".metadata."):
        causes.append(invalid(path, jsonpath, "must not point to fields in metadata"))
    if text(schema_at(jsonpath, schema), "type") not in SELECTABLE_TYPES:
        detail = "must point to a field of type string, boolean or integer."
        causes.append(invalid(path, jsonpath, f"{detail} Enum string fields and strings with formats are allowed."))
    if name in seen:
        causes.append(duplicate(path, jsonpath))
    seen.add(name)
    return causes

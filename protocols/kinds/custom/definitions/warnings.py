"""Warnings about accepted definitions and objects."""

from collections.abc import Iterator

from protocols.kinds.custom.schema.node import LIST_TYPE
from protocols.kube.formats import is_known
from protocols.kube.meta import Object
from protocols.kube.names import qualified_faults
from protocols.kube.objects import at, items, text

OF_SET = (
    'x-kubernetes-list-type: set for items of type "{}" is not supported by server-side apply or CEL validation rules'
)

STANDARD = ("orphan", "foregroundDeletion", "kubernetes")
PREFER = "prefer a domain-qualified finalizer name {}to avoid accidental conflicts with other finalizer writers"


def finalizer_warnings(new: Object, old: Object | None) -> list[str]:
    """Return warnings about added finalizers."""
    before = at(old, "metadata", "finalizers") or ()
    added = sorted({str(name) for name in at(new, "metadata", "finalizers") or ()} - set(before))
    return [f'metadata.finalizers: "{name}": {fault}' for name in added for fault in _finalizer_faults(name)]


def _finalizer_faults(name: str) -> list[str]:
    faults = qualified_faults(name)
    if "/" not in name and name not in STANDARD:
        faults.append(PREFER.format("including a path (/) " if "." in name else ""))
    return faults


def definition_warnings(new: Object, old: Object | None) -> list[str]:
    """Return each warning once, without those that `old` already had."""
    before = _warnings(old) if old is not None else {}
    return [warning for warning in _warnings(new) if warning not in before]


def _warnings(definition: Object) -> dict[str, None]:
    schemas = [part for version in items(definition, "spec", "versions") for part in _schemas(version)]
    formats = [f'unrecognized format "{part["format"]}"' for part in schemas if _has_unknown_format(part)]
    sets = [OF_SET.format(at(part, "items", "type")) for part in schemas if _is_unsupported_set(part)]
    return dict.fromkeys([*formats, *sorted(sets)])


def _has_unknown_format(part: Object) -> bool:
    return bool(text(part, "format")) and not is_known(text(part, "format"), text(part, "type"))


def _is_unsupported_set(part: Object) -> bool:
    return part.get(LIST_TYPE) == "set" and at(part, "items", "type") in ("object", "array")


def _schemas(version: Object) -> Iterator[Object]:
    """Yield every nested schema of a version; the nesting depth of a stored schema is bounded."""
    ahead = [at(version, "schema", "openAPIV3Schema")]
    while ahead:
        part = ahead.pop()
        if not isinstance(part, dict):
            continue
        yield part
        below = [part.get(word) for word in ("additionalProperties", "not", "items")]
        below += [branch for word in ("oneOf", "anyOf", "allOf") for branch in part.get(word) or ()]
        ahead += [*reversed((part.get("properties") or {}).values()), *below]

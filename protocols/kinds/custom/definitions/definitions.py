"""The CustomResourceDefinition resource: defaults, validation, deletion.

Its conditions are written by the definition controller (controller.py), which runs in every process.
"""

from typing import Any

from msgspec.structs import asdict

from protocols.kinds.check.causes import Cause, invalid
from protocols.kinds.check.table import changed_causes
from protocols.kinds.custom.definitions.definition import CLEANUP
from protocols.kinds.custom.definitions.rules import (
    FIXED_ONCE_SERVED,
    IMMUTABLE,
    approval_causes,
    definition_causes,
    stored_causes,
)
from protocols.kinds.custom.definitions.warnings import definition_warnings
from protocols.kinds.served.columns import CREATED, NAME
from protocols.kinds.served.row import STATUS_VERBS, Served, Subresource
from protocols.kinds.served.strategy import Strategy
from protocols.kinds.shapes.clean import WrongType, clean
from protocols.kinds.shapes.registry import registry
from protocols.kinds.table import DEFINITIONS as ROW
from protocols.kube.custom import condition
from protocols.kube.meta import Object
from protocols.kube.objects import at, items, text

PROPS = "io.k8s.api.apiextensions.v1.JSONSchemaProps"
MAPS = ("properties", "patternProperties", "definitions")
LISTS = ("allOf", "anyOf", "oneOf")
UNIONS = ("items", "additionalProperties")
"""Schemas or something else: unknown fields in them are no mistake that strict validation reports."""
FREE = ("example", "enum")


def tidy(raw: dict[str, Any]) -> None:
    """Normalize in place.

    Raises WrongType for a schema below one of UNIONS that is none, RecursionError.
    """
    for name in [name for name, value in raw.items() if value is None and name not in FREE]:
        del raw[name]
    for word in MAPS:
        for name, part in raw.get(word, {}).items():
            raw[word][name] = part if part is not None else {}
            tidy(raw[word][name])
    for word in LISTS:
        if word in raw:
            raw[word] = [part if part is not None else {} for part in raw[word]]
        for part in raw.get(word, ()):
            tidy(part)
    if "not" in raw:
        tidy(raw["not"])
    for word in UNIONS:
        if isinstance(raw.get(word), dict):
            clean(raw[word], registry().structs[PROPS])
            tidy(raw[word])


class DefinitionStrategy(Strategy):
    """CustomResourceDefinitions: no condition exists until the controller writes the first."""

    has_status = True
    has_generation = True

    def default(self, obj: Object) -> None:
        spec = obj.get("spec")
        names = spec.get("names") if isinstance(spec, dict) else None
        if not isinstance(spec, dict) or not isinstance(names, dict):
            return
        if kind := text(names, "kind"):
            names["singular"] = names.get("singular") or kind.lower()
            names["listKind"] = names.get("listKind") or f"{kind}List"
        if spec.get("conversion") is None:
            spec["conversion"] = {"strategy": "None"}
        elif not any((spec["conversion"].get("webhook") or {}).values()):
            spec["conversion"].pop("webhook", None)
        if not spec.get("preserveUnknownFields"):
            spec.pop("preserveUnknownFields", None)

    def prepare_create(self, obj: Object) -> None:
        super().prepare_create(obj)
        # Upstream's conditions are null at first: kubectl wait fails for that, so here they are absent.
        names = {"plural": "", "kind": ""}
        obj["status"] = {"acceptedNames": names, "storedVersions": _storage(obj)}

    def prepare_update(self, new: Object, old: Object) -> None:
        super().prepare_update(new, old)
        stored = list(at(new, "status", "storedVersions") or ())
        stored += [name for name in _storage(new) if name not in stored]
        new["status"] = {**(new.get("status") or {}), "storedVersions": stored}

    def validate_create(self, obj: Object) -> list[Cause]:
        untidy = _tidied(obj)
        return untidy or definition_causes(obj) + stored_causes(obj)

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        if new.get("spec") == old.get("spec"):
            return approval_causes(new, old)
        established = condition(old, "Established") == "True"
        untidy = _tidied(new)
        return untidy or _new_causes(new, old) + changed_causes(
            new, old, *(FIXED_ONCE_SERVED if established else IMMUTABLE)
        ) + stored_causes(new)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        return stored_causes(new)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        return definition_warnings(new, old)

    def prepare_delete(self, obj: Object) -> None:
        """Add the cleanup finalizer; the definition controller removes it once no object is left."""
        held = list(obj["metadata"].get("finalizers") or ())
        if not obj["metadata"].get("deletionTimestamp") and CLEANUP not in held:
            obj["metadata"]["finalizers"] = [*held, CLEANUP]


def _new_causes(new: Object, old: Object) -> list[Cause]:
    """Return the causes that `old` does not have.

    An unchanged fault that an older server accepted does not block an update.
    """
    causes = definition_causes(new, old)
    before = set(definition_causes(old, old)) if causes else set()
    return [cause for cause in causes if cause not in before]


def _storage(obj: Object) -> list[str]:
    return [text(version, "name") for version in items(obj, "spec", "versions") if version.get("storage")]


def _tidied(obj: Object) -> list[Cause]:
    """Normalize the schemas in place. Raises WrongType."""
    for index, version in enumerate(items(obj, "spec", "versions")):
        schema = at(version, "schema", "openAPIV3Schema")
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        try:
            if isinstance(schema, dict):
                tidy(schema)
        except WrongType as error:
            kind = f'{ROW.kind} in version "{ROW.version}"'
            raise WrongType(f"{kind} cannot be handled as a {ROW.kind}: {path}: {error}") from None
        except RecursionError:
            return [invalid(path, "object", "is nested too deeply")]
    return []


DEFINITIONS: Served = Served(
    **asdict(ROW),
    strategy=DefinitionStrategy(),
    columns=(NAME, CREATED),
    versioned_update=True,
    subresources=(Subresource("status", STATUS_VERBS, ROW.kind, ROW.group, ROW.version),),
)

"""Writing custom objects: defaults, the schema, and what counts as a new generation."""

from typing import Any

from actors.apiserver.catalog.strategy import Strategy, restore_all_but
from actors.apiserver.custom.kind import Kind
from actors.apiserver.custom.schema.defaults import fill
from actors.apiserver.custom.schema.node import MISSING, Node
from actors.apiserver.custom.schema.validate import NOWHERE, schema_causes
from actors.apiserver.errors.causes import Cause, invalid
from actors.apiserver.objects.paths import Obj

BLOCKING = [f"FieldValue{what}" for what in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")]
"""With one of these, no rule can be asked about the object."""
UNASKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete "
    "validation"
)


class CustomStrategy(Strategy):
    has_generation = True

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self.has_status = kind.version.status

    def default(self, obj: Obj) -> None:
        if self._kind.has_defaults:
            fill(obj, self._kind.node)

    def prepare_status(self, new: Obj, old: Obj) -> None:
        restore_all_but(new, old, "status")
        self.default(new)

    def validate_create(self, obj: Obj) -> list[Cause]:
        return _causes(obj, self._kind.node)

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        return _causes(new, self._kind.node, old)

    def validate_status(self, new: Obj, old: Obj) -> list[Cause]:
        return self.validate_update(new, old)

    def counts(self, new: Obj, old: Obj) -> bool:
        """Everything but metadata, and but the status where that has an endpoint of its own."""
        apart = ("metadata", "status") if self.has_status else ("metadata",)
        return any(new.get(name) != old.get(name) for name in (new.keys() | old.keys()) - set(apart))


def _causes(obj: Obj, node: Node, old: Any = MISSING) -> list[Cause]:
    causes = schema_causes(obj, node, old)
    if not node.ruled:
        return causes
    if any(cause.reason in BLOCKING for cause in causes):
        return [*causes, invalid(NOWHERE, None, UNASKED)]
    from actors.apiserver.custom.rule.evaluate import rule_causes

    return causes + rule_causes(obj, node, old)

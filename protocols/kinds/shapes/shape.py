"""Shapes: the type of a value in an object, and how its parts are owned and patched."""

from collections.abc import Callable
from typing import Any

STRUCT, MAP, LIST = "struct", "map", "list"
TEXT, BOOL, INT32, INT64, BYTES = "str", "bool", "int32", "int64", "bytes"
TIME, MICROTIME, QUANTITY, INT_OR_STRING, ANY = "time", "microtime", "quantity", "int-or-string", "any"
JSON = "json"
"""Any JSON value, while ANY is any object."""
SCALARS = (TEXT, BOOL, INT32, INT64, BYTES, TIME, MICROTIME, QUANTITY, INT_OR_STRING)


class Shape:
    """`form` is one of the constants above. Structs are filled after their creation: a type may contain itself."""

    __slots__ = (
        "always",
        "atomic",
        "default",
        "fields",
        "form",
        "gvk",
        "item",
        "kept",
        "keys",
        "name",
        "nothing",
        "patch",
        "present",
        "required",
        "scalar_set",
    )

    def __init__(
        self,
        form: str,
        *,
        name: str = "",
        item: "Shape | None" = None,
        keys: tuple[str, ...] = (),
        atomic: bool = False,
    ) -> None:
        self.form = form
        self.name = name
        """Full name of a struct, as of its OpenAPI component."""
        self.fields: dict[str, Shape] = {}
        self.required: tuple[str, ...] = ()
        self.item = item
        """Shape of the elements of a map or list. Of a struct, shape of unlisted fields; None if there are none."""
        self.keys = keys
        """Key fields of a keyed list of structs; empty for other lists."""
        self.scalar_set = False
        """True for a list of unique scalars."""
        self.atomic = atomic
        """True if the value is owned and replaced as a whole."""
        self.default: Any = None
        """Value of an absent field that is part of a list's key."""
        self.patch: tuple[str, str] = ("", "")
        """Strategy and merge key of a strategic merge patch."""
        self.present: dict[str, Callable[[], Any]] = {}
        """Fields that a typed object always has, and functions that make their zero values."""
        self.always: tuple[tuple[str, Callable[[], Any]], ...] = ()
        """The same as pairs, which take less time."""
        self.nothing: dict[str, Any] = {}
        """The value of a struct of which no field is set. It is shared: never change it."""
        self.kept: frozenset[str] = frozenset()
        """Optional fields that keep a zero value, which others lose."""
        self.gvk = False
        """True for a kind, which has apiVersion and kind."""

    @property
    def leaf(self) -> bool:
        """True if the value has no separately owned parts."""
        if self.form == LIST:
            return not (self.keys or self.scalar_set)
        return self.atomic or self.form not in (STRUCT, MAP)

    def child(self, field: str) -> "Shape | None":
        """Return the shape of a field of a struct or map; None if there is no such field."""
        return self.fields.get(field, self.item) if self.form == STRUCT else self.item

    def blank(self) -> dict[str, Any]:
        """Return a new value of a struct of which no field is set."""
        return {field: make() for field, make in self.always}

    def granular(self) -> "Shape":
        """Return the same struct with separately owned fields. It shares the fields, so it may be made before them."""
        shape = Shape(STRUCT, name=self.name)
        shape.fields, shape.required = self.fields, self.required
        return shape

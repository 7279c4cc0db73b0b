"""One place in an object: what may stand there, and how its parts are owned."""

from typing import Any

STRUCT, MAP, LIST = "struct", "map", "list"
TEXT, BOOL, INT32, INT64, BYTES = "str", "bool", "int32", "int64", "bytes"
TIME, MICROTIME, QUANTITY, INT_OR_STRING, ANY = "time", "microtime", "quantity", "int-or-string", "any"
JSON = "json"
"""Any value at all; `any` is any object."""
SCALARS = (TEXT, BOOL, INT32, INT64, BYTES, TIME, MICROTIME, QUANTITY, INT_OR_STRING)


class Shape:
    """`form` is one of the words above. Structs are filled after they are made: a type may contain itself."""

    __slots__ = (
        "atomic",
        "default",
        "fields",
        "form",
        "gvk",
        "item",
        "keys",
        "name",
        "patch",
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
        """Full name of a struct, as OpenAPI components are named."""
        self.fields: dict[str, Shape] = {}
        self.required: tuple[str, ...] = ()
        self.item = item
        """What a map or a list holds; of a struct, what its other fields hold (None: it has no others)."""
        self.keys = keys
        """Of a list of structs: the fields that tell its elements apart; empty = no such list."""
        self.scalar_set = False
        """A list of scalars in which each stands once."""
        self.atomic = atomic
        """Owned and replaced as a whole."""
        self.default: Any = None
        """What an absent field means where it is part of a list's key."""
        self.patch: tuple[str, str] = ("", "")
        """Strategy and merge key of a strategic merge patch."""
        self.gvk = False
        """A kind: carries apiVersion and kind."""

    @property
    def leaf(self) -> bool:
        """Has no parts of its own as far as ownership goes."""
        if self.form == LIST:
            return not (self.keys or self.scalar_set)
        return self.atomic or self.form not in (STRUCT, MAP)

    def child(self, field: str) -> "Shape | None":
        """Of a struct or a map: the shape under `field`; None = no such field."""
        return self.fields.get(field, self.item) if self.form == STRUCT else self.item

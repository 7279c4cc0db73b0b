"""Turn protobuf messages into dictionaries of bounded size, with the values of environment variables set apart. Pure.

Messages come from plugins: a record of one costs at most MAX_CHARACTERS, whatever its size.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from protocols.messages.calls import HIDDEN

MAX_ITEMS = 32
"""Items shown of a list or map."""
MAX_TEXT = 256
"""Characters shown of a text."""
MAX_CHARACTERS = 8192
"""Characters of one rendered record, estimated."""
COST = 8
"""Characters that a value costs besides its own."""
SECRET_MAPS = frozenset({"v1beta1.ContainerAllocateResponse.envs"})
"""Maps whose values are secret: the environment of containers."""

Path: TypeAlias = tuple[str | int, ...]


class Renderer:
    """Renders the messages of one record within one budget."""

    def __init__(self) -> None:
        self.omitted: dict[str, int] = {}
        self.secrets: list[tuple[Path, str]] = []
        """Values that the rendered messages show as HIDDEN, by path."""
        self._left = MAX_CHARACTERS

    def message(self, message: Message, path: Path) -> dict[str, Any]:
        """Return the fields that are set, by name."""
        rendered: dict[str, Any] = {}
        for field, value in message.ListFields():
            rendered[field.name] = self._field(field, value, (*path, field.name))
        return rendered

    def names(self, names: Iterable[str], count: int, path: Path) -> list[str]:
        """Return the first of `count` names."""
        return [self.text(name, (*path, at)) for at, name in enumerate(self._first(names, count, path))]

    def text(self, text: str, path: Path) -> str:
        shown = text[: max(0, min(MAX_TEXT, self._left))]
        self._left -= len(shown) + COST
        if len(shown) < len(text):
            self.omitted[_dotted(path)] = len(text) - len(shown)
        return shown

    def _field(self, field: FieldDescriptor, value: Any, path: Path) -> Any:
        if _is_map(field):
            return self._map(field, value, path)
        if hasattr(value, "append"):  # a repeated field
            first = self._first(value, len(value), path)
            return [self._value(item, (*path, at)) for at, item in enumerate(first)]
        return self._value(value, path)

    def _map(self, field: FieldDescriptor, value: Any, path: Path) -> dict[str, Any]:
        rendered: dict[str, Any] = {}
        for key in sorted(self._first(value, len(value), path)):
            name = self.text(str(key), (*path, str(key)[:MAX_TEXT]))
            rendered[name] = self._value(value[key], (*path, name))
            if field.full_name in SECRET_MAPS:
                self.secrets.append(((*path, name), rendered[name]))
                rendered[name] = HIDDEN
        return rendered

    def _first(self, items: Iterable[Any], count: int, path: Path) -> list[Any]:
        room = MAX_ITEMS if self._left > 0 else 0
        if count > room:
            self.omitted[_dotted(path)] = count - room
        return list(islice(items, room))

    def _value(self, value: Any, path: Path) -> Any:
        if isinstance(value, Message):
            self._left -= COST
            return self.message(value, path)
        if isinstance(value, str):
            return self.text(value, path)
        self._left -= COST
        return value if isinstance(value, int | float) else repr(value)[:MAX_TEXT]


class Rendered(NamedTuple):
    """Both messages of a call, with the values of environment variables."""

    request: dict[str, Any]
    reply: dict[str, Any]
    omitted: dict[str, int]
    """Items and characters that are not shown, by path."""


def render_call(request_kind: type[Message], request: bytes, reply_kind: type[Message], reply: bytes) -> Rendered:
    """Render encoded messages within one budget; one that is not valid is shown empty."""
    renderer = Renderer()
    rendered = {}
    for name, kind, raw in (("request", request_kind, request), ("reply", reply_kind, reply)):
        try:
            rendered[name] = renderer.message(kind.FromString(raw), (name,))
        except DecodeError:
            rendered[name] = {}
    reveal(rendered, renderer.secrets)
    return Rendered(**rendered, omitted=renderer.omitted)


def _is_map(field: FieldDescriptor) -> bool:
    kind = field.message_type
    return kind is not None and bool(kind.GetOptions().map_entry)


def _dotted(path: Path) -> str:
    return ".".join(map(str, path))


def reveal(rendered: dict[str, Any], secrets: Iterable[tuple[Path, str]]) -> None:
    """Put the values that were set apart back into a rendered record, in place."""
    for (*parents, name), value in secrets:
        target: Any = rendered
        for step in parents:
            target = target[step]
        target[name] = value

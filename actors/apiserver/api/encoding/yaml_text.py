"""Decode YAML to JSON values from the parser's events, without recursion.

Rejected are aliases, nesting beyond DEPTH_LIMIT (libyaml's own composer recurses until the process dies), tags of other
types than JSON's, and numbers that JSON cannot express. Dates stay texts, as does 12:30, which is a number in YAML 1.1.
"""

from collections.abc import Iterator
from math import isfinite
from typing import Any, NamedTuple

import yaml

from protocols.kube.jsons import DEPTH_LIMIT

TAG = "tag:yaml.org,2002:"
MAX_REPEATED = 100
LARGEST_BITS = 1024
"""Bits of an integer, as many as a float can reach. Python formats at most 4,300 digits, but parses more in base 16."""


class Document(NamedTuple):
    value: Any
    repeated: list[str]
    """Upstream's texts about repeated keys of a map, of which the last value wins."""


class NotPlain(yaml.YAMLError):
    """Raised for valid YAML that JSON cannot express, or that is nested too deeply."""


class _Open:
    """A map or list whose end has not been parsed yet."""

    def __init__(self, value: dict[str, Any] | list[Any]) -> None:
        self.value = value
        self.key: str | None = None
        """The key of a map that waits for its value."""


def read_yaml(text: str) -> Document:
    """Decode the single document of `text`; an empty one is null. Raises yaml.YAMLError."""
    loader = _LOADER(text)
    try:
        return _Builder(loader).build(_events(loader))
    finally:
        loader.dispose()


class _Builder:
    def __init__(self, loader: "_LOADER") -> None:
        self._loader = loader
        self._open: list[_Open] = []
        self._repeated: list[str] = []
        self._root: Any = None
        self._begun = False

    def build(self, events: Iterator[yaml.Event]) -> Document:
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self._put(self._scalar(event), event)
            elif isinstance(event, yaml.MappingStartEvent):
                self._enter({}, event)
            elif isinstance(event, yaml.SequenceStartEvent):
                self._enter([], event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._open.pop()
            elif isinstance(event, yaml.AliasEvent):
                raise NotPlain("it uses aliases, which are not supported")
            elif isinstance(event, yaml.DocumentStartEvent):
                self._begin()
        return Document(self._root, self._repeated[:MAX_REPEATED])

    def _begin(self) -> None:
        if self._begun:
            raise NotPlain("expected a single document")
        self._begun = True

    def _enter(self, value: dict[str, Any] | list[Any], event: yaml.CollectionStartEvent) -> None:
        kind = "map" if isinstance(value, dict) else "seq"
        if event.tag not in (None, "!", TAG + kind):
            raise NotPlain(f"{_place(event)}: the tag {event.tag!r:.64} is not supported")
        if len(self._open) == DEPTH_LIMIT:
            raise NotPlain(f"{_place(event)}: nested deeper than {DEPTH_LIMIT}")
        self._put(value, event)
        self._open.append(_Open(value))

    def _put(self, value: Any, event: yaml.Event) -> None:
        if not self._open:
            self._root = value
            return
        parent = self._open[-1]
        if isinstance(parent.value, list):
            parent.value.append(value)
        elif parent.key is None:
            parent.key = _key(value, event)
            if parent.key in parent.value:
                self._repeated.append(f'{_place(event)}: key "{parent.key}" already set in map')
        else:
            parent.value[parent.key] = value
            parent.key = None

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag in (TAG + "str", TAG + "value", TAG + "timestamp"):
            return event.value
        if ":" in event.value and event.tag is None:
            return event.value
        if tag not in _CONSTRUCT:
            raise NotPlain(f"{_place(event)}: the tag {tag!r:.64} is not supported")
        return _number(_CONSTRUCT[tag](self._loader, event), event)


def _construct(name: str, loader: "_LOADER", event: yaml.ScalarEvent) -> Any:
    try:
        return getattr(loader, f"construct_yaml_{name}")(yaml.ScalarNode(TAG + name, event.value))
    except (KeyError, ValueError, IndexError):
        raise NotPlain(f"{_place(event)}: {event.value!r:.64} is no {name}") from None


_CONSTRUCT = {
    TAG + name: lambda loader, event, name=name: _construct(name, loader, event)
    for name in ("int", "float", "bool", "null")
}


def _number(value: Any, event: yaml.ScalarEvent) -> Any:
    if isinstance(value, float) and not isfinite(value):
        raise NotPlain(f"{_place(event)}: {event.value} is no number in JSON")
    if isinstance(value, int) and value.bit_length() > LARGEST_BITS:
        raise NotPlain(f"{_place(event)}: {event.value!r:.64} is too large a number")
    return value


def _key(value: Any, event: yaml.Event) -> str:
    """Return a key as text: like upstream, accept numbers and booleans."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    raise NotPlain(f"{_place(event)}: a key must be text")


def _place(event: yaml.Event) -> str:
    return f"line {event.start_mark.line + 1}" if event.start_mark is not None else "somewhere"


def _events(loader: "_LOADER") -> Iterator[yaml.Event]:
    while loader.check_event():
        yield loader.get_event()


class _LOADER(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # chosen at run time: C if built in
    """The safe loader, of which only events, resolver and scalars are used."""

"""Decode YAML to JSON values from the parser's events, without recursion.

Rejected are nesting beyond DEPTH_LIMIT (libyaml's own composer recurses until the process dies), tags of other types
than JSON's, and numbers that JSON cannot express. Aliases and merges are rejected unless the caller allows what they
add: they grow exponentially. Dates stay texts, as does 12:30, which is a number in YAML 1.1.
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
    """One document of a YAML stream."""

    value: Any
    repeated: list[str]
    """Upstream's texts about repeated keys of a map, of which the last value wins."""


class NotPlain(yaml.YAMLError):
    """Raised for valid YAML that JSON cannot express, or that is nested too deeply."""


class _Anchored(NamedTuple):
    """A value that aliases repeat: with `size` values and characters in it, and `height` levels."""

    value: Any
    size: int
    height: int


class _Merge:
    """The key `<<`."""


class _Open:
    """A map or list whose end has not been parsed yet."""

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None) -> None:
        self.value, self.anchor = value, anchor
        self.key: str | _Merge | None = None
        """The key of a map that waits for its value."""
        self.merged: list[Any] = []
        self.size, self.height = 1, 1

    @property
    def takes_key(self) -> bool:
        return isinstance(self.value, dict) and self.key is None

    def close(self) -> None:
        """Add what the map merges: its own keys win, then the first map that has the key."""
        assert isinstance(self.value, dict) or not self.merged
        for sources in self.merged:
            for source in sources if isinstance(sources, list) else [sources]:
                if not isinstance(source, dict):
                    raise NotPlain("only maps can be merged")
                for key, value in source.items():
                    self.value.setdefault(key, value)  # type: ignore[union-attr]  # asserted above


def read_yaml(text: str | bytes, expanded: int = 0) -> Document:
    """Decode the single document of `text`; an empty one is null. Raises yaml.YAMLError.

    Aliases and merges may add `expanded` values and characters; with 0 they are rejected.
    """
    first, *more = read_documents(text, expanded) or [Document(None, [])]
    if more:
        raise NotPlain("expected a single document")
    return first


def read_documents(text: str | bytes, expanded: int = 0) -> list[Document]:
    """Decode all documents of `text`. Raises yaml.YAMLError."""
    loader = _LOADER(text)
    try:
        return list(_Builder(loader, expanded).build(_events(loader)))
    finally:
        loader.dispose()


class _Builder:
    def __init__(self, loader: "_LOADER", expanded: int) -> None:
        self._loader = loader
        self._open: list[_Open] = []
        self._repeated: list[str] = []
        self._root: Any = None
        self._anchors: dict[str, _Anchored] = {}
        self._most, self._left = expanded, expanded

    def build(self, events: Iterator[yaml.Event]) -> Iterator[Document]:
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self._leaf(_Anchored(self._scalar(event), 1 + len(event.value), 0), event)
            elif isinstance(event, yaml.MappingStartEvent):
                self._enter({}, event)
            elif isinstance(event, yaml.SequenceStartEvent):
                self._enter([], event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._leave()
            elif isinstance(event, yaml.AliasEvent):
                self._leaf(self._repeat(event), event)
            elif isinstance(event, yaml.DocumentStartEvent):
                self._root, self._repeated, self._anchors = None, [], {}
            elif isinstance(event, yaml.DocumentEndEvent):
                yield Document(self._root, self._repeated[:MAX_REPEATED])

    def _leaf(self, found: _Anchored, event: yaml.NodeEvent) -> None:
        self._put(found.value, event)
        self._count(found)
        if isinstance(event, yaml.ScalarEvent) and event.anchor is not None:
            self._anchors[event.anchor] = found

    def _count(self, found: _Anchored) -> None:
        if self._open:
            self._open[-1].size += found.size
            self._open[-1].height = max(self._open[-1].height, found.height + 1)

    def _repeat(self, event: yaml.AliasEvent) -> _Anchored:
        if not self._most:
            raise NotPlain("it uses aliases, which are not supported")
        anchored = self._anchors.get(event.anchor or "")
        if any(collection.anchor == event.anchor for collection in self._open):
            raise NotPlain("with its aliases it never ends")
        if anchored is None:
            raise NotPlain(f"{_place(event)}: no value before it has the name {event.anchor!r:.64}")
        if len(self._open) + anchored.height > DEPTH_LIMIT:
            raise NotPlain(f"{_place(event)}: nested deeper than {DEPTH_LIMIT}")
        self._left -= anchored.size
        if self._left < 0:
            raise NotPlain(f"with its aliases it has over {self._most} values and characters more")
        return anchored

    def _leave(self) -> None:
        closed = self._open.pop()
        closed.close()
        anchored = _Anchored(closed.value, closed.size, closed.height)
        self._count(anchored)
        if closed.anchor is not None:
            self._anchors[closed.anchor] = anchored

    def _enter(self, value: dict[str, Any] | list[Any], event: yaml.CollectionStartEvent) -> None:
        kind = "map" if isinstance(value, dict) else "seq"
        if event.tag not in (None, "!", TAG + kind):
            raise NotPlain(f"{_place(event)}: the tag {event.tag!r:.64} is not supported")
        if len(self._open) == DEPTH_LIMIT:
            raise NotPlain(f"{_place(event)}: nested deeper than {DEPTH_LIMIT}")
        self._put(value, event)
        self._open.append(_Open(value, event.anchor))

    def _put(self, value: Any, event: yaml.Event) -> None:
        if isinstance(value, _Merge) and not (self._open and self._open[-1].takes_key):
            value = "<<"
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
        elif isinstance(parent.key, _Merge):
            parent.merged.append(value)
            parent.key = None
        else:
            parent.value[parent.key] = value
            parent.key = None

    def _scalar(self, event: yaml.ScalarEvent) -> Any:
        tag = event.tag
        if tag is None or tag == "!":
            tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        if tag in (TAG + "str", TAG + "value", TAG + "timestamp"):
            return event.value
        if tag == TAG + "merge" and self._most:
            return _Merge()
        if ":" in event.value and event.tag is None:
            return event.value
        if tag not in _CONSTRUCT:
            raise NotPlain(f"{_place(event)}: the tag {tag!r:.64} is not supported")
        return _number(_CONSTRUCT[tag](self._loader, event), event)


def _construct(name: str, loader: "_LOADER", event: yaml.ScalarEvent) -> Any:
    if ":" in event.value and name in ("int", "float"):  # in base 60, with the square of its digits
        raise NotPlain(f"{_place(event)}: {event.value!r:.64} is no {name}")
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


def _key(value: Any, event: yaml.Event) -> str | _Merge:
    """Return a key as text: like upstream, accept numbers and booleans."""
    if isinstance(value, str | _Merge):
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

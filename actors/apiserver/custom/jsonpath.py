"""The JSONPath of printer columns and selectable fields: steps by name, index, wildcard, and one kind of filter."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import msgspec

from protocols.errors import NodeplaneError

STEP = re.compile(
    r"""
    \.?\[\s*(?:
        (?P<index>-?\d+) | (?P<all>\*) | '(?P<single>[^']*)' | "(?P<double>[^"]*)" |
        \?\(\s*@\.(?P<field>[^\s=!<>)]+)\s*(?P<op>==|!=)\s*(?P<value>"[^"]*"|'[^']*'|[^\s)]+)\s*\)
    )\s*\] |
    \.(?P<name>(?:\\.|[^.\[\]\\])+) |
    \.(?P<deep>\*)
    """,
    re.VERBOSE,
)
Step = Callable[[Any], Iterable[Any]]


class PathInvalid(NodeplaneError):
    """Raised for a JSONPath that uses more than is read here."""

    http: ClassVar[int] = 422
    grpc: ClassVar[str] = "INVALID_ARGUMENT"


class JsonPath:
    """Raises PathInvalid."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = list(_steps(text)) if text not in (".", "") else []

    def first(self, obj: Any) -> Any:
        """The first value found; None when there is none."""
        return next(self.values(obj), None)

    def values(self, obj: Any) -> Iterator[Any]:
        found: Iterable[Any] = [obj]
        for step in self._steps:
            found = [value for each in found for value in step(each)]
        yield from found


def _steps(text: str) -> Iterator[Step]:
    at = 0
    while at < len(text):
        found = STEP.match(text, at)
        if found is None:
            raise PathInvalid(f"is an invalid path: cannot read {text[at:]!r}")
        yield _step(found)
        at = found.end()


def _step(found: re.Match[str]) -> Step:
    if found["index"] is not None:
        return _indexed(int(found["index"]))
    if found["all"] or found["deep"] or found["name"] == "*":
        return _all
    if found["field"] is not None:
        return _filtered(found["field"], found["op"] == "==", found["value"])
    name = found["name"]
    if name is not None:
        return _named(re.sub(r"\\(.)", r"\1", name))
    return _named(found["single"] if found["single"] is not None else found["double"])


def _named(name: str) -> Step:
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _indexed(index: int) -> Step:
    return lambda value: value[index : index + 1 or None] if isinstance(value, list) else []


def _all(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list) else value.values() if isinstance(value, dict) else ()


def _filtered(path: str, equal: bool, literal: str) -> Step:
    getter = JsonPath(f".{path}")
    wanted = literal[1:-1] if literal[:1] in "\"'" else literal

    def step(value: Any) -> Iterable[Any]:
        parts = value if isinstance(value, list) else ()
        return [part for part in parts if (shown(getter.first(part)) == wanted) is equal]

    return step


def shown(value: Any) -> str:
    """As kubectl prints it: text as it is, everything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()

"""Types of Kubernetes as its Go source declares them: structs with their tags and markers, and what names stand for."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from protocols.errors import SettingsInvalid

STRUCT = re.compile(r"type (\w+) struct \{")
NAMED = re.compile(r"type (\w+) (=? ?[^ {]+)(?: //.*)?")
FIELD = re.compile(r"(?:\w+\s+)?(\S+)\s+`([^`]*)`")
TAG = re.compile(r'(\w+):"([^"]*)"')
COMMENT = "//"
STAGING = "staging/src/k8s.io"
EXTENSIONS = "apiextensions-apiserver/pkg/apis/apiextensions"
META = "apimachinery/pkg/apis/meta"

IMPORT = re.compile(r'\s+(?:(\w+) )?"k8s\.io/(?:api|apimachinery/pkg/apis)/(\w+)/(\w+)"')

Markers = Mapping[str, tuple[str, ...]]


class SourceMissing(SettingsInvalid):
    """Raised when the tree that facts are read from is not one of Kubernetes, or lacks a group's version."""


class GoField(msgspec.Struct, frozen=True):
    """A field of a Go struct, with its struct tags and the `+` markers of its comment."""

    type: str
    tags: Mapping[str, str]
    markers: Markers


class GoStruct(msgspec.Struct, frozen=True):
    """A Go struct, embedded fields included."""

    fields: tuple[GoField, ...]
    markers: Markers


class _GoPackage(msgspec.Struct, frozen=True):
    structs: Mapping[str, GoStruct]
    names: Mapping[str, str]
    """Underlying types of named ones: `PodPhase` is `string`."""
    imports: Mapping[str, str]
    """Packages by the names that this one gives them."""


def read_package(tree: Path, package: str) -> _GoPackage:
    """Read a group's version, such as `core.v1`, below a checkout of Kubernetes. Raises SourceMissing."""
    group, _, version = package.partition(".")
    folder = tree / STAGING / {"meta": META, "apiextensions": EXTENSIONS}.get(group, f"api/{group}") / version
    files = sorted(folder.glob("types*.go"))
    if not files:
        raise SourceMissing(f"no types.go in {folder}: name a checkout of github.com/kubernetes/kubernetes")
    structs: dict[str, GoStruct] = {}
    names: dict[str, str] = {}
    imports: dict[str, str] = {}
    for path in files:
        if not path.stem.endswith(("_test", "_generated")):
            text = path.read_text("utf-8")
            imports.update((own or version, f"{group}.{version}") for own, group, version in IMPORT.findall(text))
            _read(iter(text.splitlines()), structs, names)
    return _GoPackage(structs, names, imports)


def _read(lines: Iterator[str], structs: dict[str, GoStruct], names: dict[str, str]) -> None:
    """A comment with a marker belongs to what follows, also behind an empty line."""
    comments: list[str] = []
    for line in lines:
        if line.startswith(COMMENT):
            comments.append(line)
        elif match := STRUCT.match(line):
            structs[match[1]] = GoStruct(tuple(_fields(lines)) if not line.endswith("}") else (), _markers(comments))
            comments = []
        elif line.strip():
            if match := NAMED.match(line):
                names[match[1]] = match[2].removeprefix("=").strip()
            comments = []


def _fields(lines: Iterator[str]) -> Iterator[GoField]:
    comments: list[str] = []
    for line in lines:
        text = line.strip()
        if text == "}":
            return
        if text.startswith(COMMENT):
            comments.append(text)
        elif match := FIELD.match(text):
            yield GoField(match[1], dict(TAG.findall(match[2])), _markers(comments))
            comments = []


def _markers(comments: list[str]) -> Markers:
    """Markers are the comments `+name` and `+name=value`; some come more than once."""
    markers: dict[str, tuple[str, ...]] = {}
    for comment in comments:
        text = comment.removeprefix(COMMENT).strip()
        if text.startswith("+"):
            name, _, value = text[1:].partition("=")
            markers[name] = (*markers.get(name, ()), value.strip('"'))
    return markers

"""Environment variables from files in volumes (fileKeyRef): which files, and their syntax. Pure.

A file holds assignments like NAME='value', whose value is literal and may span lines. Comments and blank lines are
ignored. Anything else that a shell would accept is an error, since the node does not interpret it.
"""

import re
from collections.abc import Mapping

import msgspec

from actors.podworker.model.errors import ContainerConfigInvalid
from protocols.lifecycle.pods.types import ContainerSpec

BLANKS = " \t\r"
_BLANK = re.compile(r"[ \t\r]*")
_SPACE = re.compile(r"\s*")


class FileRef(msgspec.Struct, frozen=True, order=True):
    """A file of a volume; the path is relative to it."""

    volume: str
    path: str


class EnvFile(msgspec.Struct, frozen=True):
    """The variables of a file."""

    variables: dict[str, str]
    """Those before the first fault; the first assignment of a name counts."""
    fault: str = ""

    def find(self, name: str) -> str | None:
        """Return the variable's value, None if it has none. Raises ContainerConfigInvalid."""
        if name not in self.variables and self.fault:
            raise ContainerConfigInvalid(self.fault)
        return self.variables.get(name)


Files = Mapping[FileRef, EnvFile | None]
"""Env files by reference; None: the file does not exist."""


def file_refs(container: ContainerSpec) -> set[FileRef]:
    """Return the files that the container's variables refer to."""
    sources = ((entry.get("valueFrom") or {}).get("fileKeyRef") for entry in container.raw.get("env") or ())
    return {FileRef(str(ref.get("volumeName") or ""), str(ref.get("path") or "")) for ref in sources if ref}


def parse_env_file(text: str) -> EnvFile:
    """Takes time linear in the text, which a container wrote."""
    variables: dict[str, str] = {}
    position = _next(text, 0)
    while position < len(text):
        assignment = _assignment(text, position)
        if assignment is None:
            number = text.count("\n", 0, position) + 1
            return EnvFile(variables, f"line {number} of the env file is not of the form NAME='value'")
        name, value, end = assignment
        variables.setdefault(name, value)
        position = _next(text, end)
    return EnvFile(variables)


def _next(text: str, position: int) -> int:
    """Return the position of the next line that is neither blank nor a comment."""
    position = _skip(_SPACE, text, position)
    while text.startswith("#", position):
        end = text.find("\n", position)
        position = _skip(_SPACE, text, end) if end >= 0 else len(text)
    return position


def _assignment(text: str, start: int) -> tuple[str, str, int] | None:
    """Return name, value and end of the line; None if there is no assignment."""
    sign = text.find("=", start, _line_end(text, start))
    name = text[start:sign].rstrip(BLANKS) if sign >= 0 else ""
    quote = _skip(_BLANK, text, sign + 1)
    close = text.find("'", quote + 1)
    if not name or "'" in name or not text.startswith("'", quote) or close < 0:
        return None
    end = _skip(_BLANK, text, close + 1)
    return (name, text[quote + 1 : close], end) if end == _line_end(text, close) else None


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return end if end >= 0 else len(text)


def _skip(what: re.Pattern[str], text: str, position: int) -> int:
    match = what.match(text, position)
    return match.end() if match else position

"""A page as a test: its commands in order, and what it says they print.

A command is an indented line that begins with `$ `, with a here-document to its end; what follows, indented, is what it
prints. Names with a random end and ages are any; lines are compared as a set, since events and lists have no order.
"""

import re
from pathlib import Path
from typing import NamedTuple

INDENT = "    "
RANDOM_NAME = re.compile(r"\b([a-z]+-(?:gpu|device|extended-resources))-[a-z0-9]{5}\b")
UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b[0-9a-f]{8}\b")
"""In full, or the beginning that commands show."""
AGE = re.compile(r"(?<!\S)(?:\d+[smh])+(?!\S)|\(x\d+ over \S+\)")


class Step(NamedTuple):
    line: int
    command: str
    printed: str
    """Empty if the page shows nothing."""


def steps(page: Path) -> list[Step]:
    found: list[Step] = []
    lines = page.read_text().splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].startswith(f"{INDENT}$ "):
            at += 1
            continue
        first, command = at + 1, [lines[at].removeprefix(f"{INDENT}$ ")]
        at += 1
        if end := re.search(r"<<(\w+)$", command[0]):
            while lines[at].strip() != end[1]:
                command.append(lines[at].removeprefix(INDENT))
                at += 1
            command.append(end[1])
            at += 1
        printed = []
        while at < len(lines) and _is_printed(lines, at):
            printed.append(lines[at].removeprefix(INDENT))
            at += 1
        found.append(Step(first, "\n".join(command), "\n".join(printed)))
    return found


def _is_printed(lines: list[str], at: int) -> bool:
    """Return True for an indented line that is no command, or an empty line before one."""
    following = lines[at] or (lines[at + 1] if at + 1 < len(lines) else "")
    return following.startswith(INDENT) and not following.startswith(f"{INDENT}$ ")


def normalized(text: str) -> list[str]:
    """Return what must be equal: lines without random ends of names, ages and the width of columns."""
    lines = (UUID.sub("UID", AGE.sub("AGE", RANDOM_NAME.sub(r"\1-RANDOM", line))).split() for line in text.splitlines())
    return sorted({" ".join(line) for line in lines if line})

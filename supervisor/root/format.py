"""The format of ROOT: a number that rises when a program of before could not read what is below ROOT, or would lose it.

A start checks it before it writes anything. ROOT/format.json names the number and the first release that reads it. A
root without the file is of release 0.1.0, which wrote none; it has format 1.
"""

from pathlib import Path

import msgspec

from protocols.process.files import UNREADABLE, write_atomic
from supervisor.base.errors import RootTooNew, RootUnusable

NAME = "format.json"
LIMIT = 4096
"""Bytes of the file; this program's has fewer than 100."""


class Format(msgspec.Struct, frozen=True):
    """Contents of ROOT/format.json."""

    format: int
    since: str
    """The first release that reads it."""


OWN = Format(1, "0.1.0")


def check_format(root: Path) -> None:
    """Raise RootTooNew if only a newer program reads this root, and RootUnusable if its format is unreadable."""
    saved = _read(root / NAME) or OWN
    if saved.format > OWN.format:
        raise RootTooNew(
            f"{root} has format {saved.format}, this program reads up to {OWN.format}: start nodeplane {saved.since!r} "
            "or newer on it, or use another --root"
        )


def mark_format(root: Path) -> None:
    """Write this program's format, unless it is there."""
    if _read(root / NAME) != OWN:
        write_atomic(root / NAME, msgspec.json.encode(OWN) + b"\n", 0o644)


def _read(path: Path) -> Format | None:
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(LIMIT), type=Format)
    except FileNotFoundError:
        return None
    except UNREADABLE:
        raise RootUnusable(
            f"{path} is damaged: remove it if nodeplane {OWN.since} or this program wrote the root last"
        ) from None

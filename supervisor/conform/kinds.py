"""Kinds of programs that are judged, and the behaviours that judge each."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "behaviours"
SHARED = FOLDER / "every_kind.py"
"""The chapter with behaviours of several kinds."""


class Kind(NamedTuple):
    """`shared` are behaviours of device plugins that judge this kind, too."""

    name: str
    noun: str
    folder: Path
    shared: tuple[str, ...] = ()

    def chapters(self) -> Iterable[Path]:
        """Return the files of its behaviours."""
        return sorted(path for path in self.folder.glob("*.py") if not path.name.startswith("_"))


PLUGIN = Kind("plugin", "a device plugin", FOLDER)
DRA = Kind("dra", "a DRA driver", FOLDER / "dra", ("two-instances", "ends-at-sigterm"))
AGENT = Kind("agent", "an agent of the pod resources API", FOLDER / "agent", ("ends-at-sigterm",))
KINDS = {kind.name: kind for kind in (PLUGIN, DRA, AGENT)}

"""Kinds of programs that are judged, and which scripts judge each."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "behaviours"


class Kind(NamedTuple):
    """`shared` are scripts of device plugins that judge this kind, too."""

    name: str
    noun: str
    folder: Path
    shared: tuple[str, ...] = ()

    def scripts(self) -> Iterable[Path]:
        """Return the files of its behaviours."""
        found = sorted(path for path in self.folder.glob("*.py") if not path.name.startswith("_"))
        return [*found, *(FOLDER / f"{name}.py" for name in self.shared)]


PLUGIN = Kind("plugin", "a device plugin", FOLDER)
DRA = Kind("dra", "a DRA driver", FOLDER / "dra", ("two_instances", "ends_at_sigterm"))
AGENT = Kind("agent", "an agent of the pod resources API", FOLDER / "agent", ("ends_at_sigterm",))
KINDS = {kind.name: kind for kind in (PLUGIN, DRA, AGENT)}

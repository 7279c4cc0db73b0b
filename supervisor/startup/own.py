"""`supervisor`, `protocols` and `actors` are common names: make sure that they are ours before anything runs."""

import importlib.util
from pathlib import Path

from supervisor.errors import ForeignPackage

PACKAGES = {"supervisor": "plane.py", "protocols": "settings.py", "actors": "__init__.py"}
OURS = Path(__file__).resolve().parent.parent.parent


def check_packages() -> None:
    """Raises ForeignPackage when one of them belongs to another distribution."""
    for name, witness in PACKAGES.items():
        spec = importlib.util.find_spec(name)
        folder = Path(spec.origin).resolve().parent if spec and spec.origin else None
        if folder is None or folder.parent != OURS or not (folder / witness).exists():
            raise ForeignPackage(
                f"package {name!r} is not nodeplane's own (found {folder or 'none'}): another distribution installed"
                f" a folder of that name; install nodeplane in an environment of its own (venv, uv tool, container)"
            )

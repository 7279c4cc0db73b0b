"""What a killed supervisor left in ROOT/run: socket files whose owner holds no lock any more.

Lock files stay, held or not: they carry the epochs.
"""

import time
from collections.abc import Iterable
from pathlib import Path

from supervisor.root.lock import held

ENDPOINTS = (".rpc", ".pub")
WAIT_S = 5.0


def clean(run_dir: Path) -> None:
    """Remove the endpoints of every name that nobody holds. Living ones are not touched."""
    remove_all(run_dir, {path.stem for path in run_dir.iterdir() if path.suffix in ENDPOINTS})


def remove_all(run_dir: Path, names: Iterable[str]) -> None:
    for name in names:
        if not held(run_dir / f"{name}.lock"):
            remove(run_dir, name)


def remove(run_dir: Path, name: str) -> None:
    """Remove the endpoints of one name; the caller knows that nobody needs them."""
    for suffix in ENDPOINTS:
        (run_dir / f"{name}{suffix}").unlink(missing_ok=True)


def wait_released(run_dir: Path, names: Iterable[str], wait_s: float = WAIT_S) -> list[str]:
    """Children of a supervisor killed a moment ago are still dying: wait for them. Returns who still holds a lock."""
    deadline = time.monotonic() + wait_s
    while alive := [name for name in names if held(run_dir / f"{name}.lock")]:
        if time.monotonic() > deadline:
            return alive
        time.sleep(0.01)
    return []

"""A machine with one process at a time and no world around it, for tests of the disk and of what is written to it."""

import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.simulation.disk.disk import Disk
from tests.simulation.disk.faults import Killed
from tests.simulation.disk.system import System


class StubProcess:
    def __init__(self, name: str) -> None:
        self.name, self.alive = name, True


class StubMachine:
    """Runs work as a process, on a disk at `root`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._current: StubProcess | None = None
        self._system = System(lambda: self._current)
        self.disk: Disk

    def format(self, seed: object) -> None:
        """Begin with an empty disk."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir()
        self.disk = self._system.disk(self.root, random.Random(f"{seed}"))

    def run(self, work: Callable[[], object], *, kill_at: int = 0, then: Callable[[], object] | None = None) -> bool:
        """Run a process; True if it was killed: by the `kill_at`-th call that changes the disk.

        With `then`, that is called there instead. An exception of a process that lives goes to the caller.
        """
        process = self._current = StubProcess("work")
        self.disk.faults.calls_left = kill_at or None
        self.disk.on_last_call = lambda owner: then() if then else setattr(process, "alive", False)
        try:
            work()
        except (Exception, Killed):
            if process.alive:
                raise
        finally:
            killed, process.alive = not process.alive, False
            self._current = None
            self._system.bury(process)
            self.disk.faults.calls_left = None
        return killed


@contextmanager
def stub_machine() -> Iterator[StubMachine]:
    """Make one in memory where the machine has such a directory: other disks take milliseconds for each removal."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as top:
        made = StubMachine(Path(top) / "disk")
        with made._system.installed():
            made.format(0)
            yield made

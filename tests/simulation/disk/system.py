"""Everything that stands between programs and simulated disks, in one process of the operating system."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.simulation.disk.disk import Disk, Owner
from tests.simulation.disk.hooks import Hooks
from tests.simulation.disk.sqlite import SqliteDisk


class System:
    """`current` returns the simulated process whose code runs."""

    def __init__(self, current: Callable[[], Owner | None]) -> None:
        self._hooks = Hooks(current)
        self._sqlite = SqliteDisk(self._hooks)

    def install(self) -> None:
        self._hooks.install()
        self._sqlite.install()

    @contextmanager
    def installed(self) -> Iterator[None]:
        self.install()
        try:
            yield
        finally:
            self._sqlite.uninstall()
            self._hooks.uninstall()

    def disk(self, root: Path, chance: random.Random) -> Disk:
        """Make the tree below `root`, which exists, a disk. Call it in no simulated process."""
        disk = Disk(root, chance, self._hooks.current)
        self._hooks.disks = [*(each for each in self._hooks.disks if each.root != root), disk]
        return disk

    def bury(self, owner: Owner) -> None:
        """Close what a dead process has open; not while a call of its is under way."""
        self._sqlite.close_all(owner)
        self._hooks.close_all(owner)

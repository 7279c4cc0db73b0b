"""The disk of one simulated machine: a real directory tree, and the model of what of it is on disk.

Processes use the tree through the kernel, so all that programs do with files works. The hooks (hooks.py, sqlite.py)
report what changes durability (fsync, rename, unlink; writes of SQLite), ask before each change whether it fails, and
whether the process that asks is still alive.
"""

import os
import random
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tests.simulation.disk import tree
from tests.simulation.disk.faults import Faults, Killed
from tests.simulation.disk.volume import ROOT, Folder, Leaf, Tree, Volume


class Owner(Protocol):
    """A process, as the disk sees it."""

    name: str
    alive: bool


class Disk:
    """The tree below `root`, which is all durable at first. `current` returns the process whose code runs."""

    def __init__(self, root: Path, chance: random.Random, current: Callable[[], Owner | None] = lambda: None) -> None:
        self.root = root
        self.chance = chance
        self.faults = Faults()
        self.current = current
        self.on_last_call: Callable[[Owner], object] = lambda owner: None
        """Called with the process whose call is the last of `faults.calls_left`: kills it, or cuts the power."""
        self.spend: Callable[[float], object] = lambda seconds: None
        """Called with the seconds that a call took."""
        self.writes = self.syncs = 0
        self._prefix = f"{root}/"
        self._load()

    def _load(self) -> None:
        self._numbers: dict[int, int] = {}
        self._next = ROOT
        self._number(os.stat(self.root).st_ino)
        self.volume = Volume(tree.scan(self.root, self._number))

    def holds(self, path: str) -> bool:
        return path.startswith(self._prefix) or path == self._prefix[:-1]

    def change(self, operation: str = "") -> None:
        """Enter a call that changes the disk; those of no process succeed.

        Raises:
            Killed: The process is dead, perhaps since now.
            OSError: EIO, as `operation` is to fail.
        """
        owner = self.current()
        if owner is None:
            return
        if not owner.alive:
            raise Killed(1)
        if self.faults.due():
            self.on_last_call(owner)
            if not owner.alive:
                raise Killed(1)
        if operation:
            self.faults.check(operation)

    def number(self, path: str) -> int | None:
        """Return the number of a file by path; None: it is not there."""
        try:
            return self._number(os.lstat(path).st_ino)
        except OSError:
            return None

    def _number(self, inode: int) -> int:
        found = self._numbers.get(inode)
        if found is None:
            found = self._numbers[inode] = self._next
            self._next += 1
        return found

    def synced(self, descriptor: int) -> None:
        """Enter fsync of a file or directory. Raises EIO, or Killed."""
        status = os.fstat(descriptor)
        if not status.st_nlink:
            return
        number = self._number(status.st_ino)
        path = f"/proc/self/fd/{descriptor}"
        if stat.S_ISDIR(status.st_mode):
            self.change("sync")
            self._synced_folder(number, path)
        else:
            self._synced_file(number, path)
        self._took_sync()

    def _synced_file(self, number: int, path: str) -> None:
        data = tree.content(path)
        try:
            self.change("sync")
        except OSError:
            self.volume.sync_failed(number, data)
            raise
        self.volume.synced(number, data)

    def synced_log(self, number: int) -> None:
        """Enter fsync of a file of which each write was reported."""
        try:
            self.change("sync")
        except OSError:
            self.volume.sync_failed(number)
            raise
        self.volume.synced(number)
        self._took_sync()

    def _took_sync(self) -> None:
        self.syncs += 1
        if self.faults.sync_seconds:
            self.spend(self.faults.sync_seconds)

    def synced_folder(self, path: str) -> None:
        """Enter fsync of a directory by path."""
        self.change("sync")
        self._synced_folder(self._number(os.stat(path).st_ino), path)

    def _synced_folder(self, number: int, path: str) -> None:
        self.volume.synced_folder(number, {name: self._number(inode) for name, inode, _ in tree.listed(path)})

    def removing(self, path: str) -> None:
        """Enter a removal. Raises Killed."""
        self.change()
        self._losing(path, removed=True)

    def renaming(self, source: str, target: str) -> None:
        """Enter a rename within this disk. Raises Killed."""
        self.change()
        number = self.number(source)
        if number is None or number == self.number(target):
            return
        self._losing(target, removed=False)
        if tree.lasts(source):
            self.volume.renamed(self._place(source), self._place(target), number)

    def _losing(self, path: str, *, removed: bool) -> None:
        try:
            status = os.lstat(path)
        except OSError:
            return
        if not tree.lasts(path):
            return
        number = self._number(status.st_ino)
        folder = os.path.isdir(path) and not os.path.islink(path)
        if removed:
            if folder and os.listdir(path):
                return
            self.volume.removed(self._place(path), number)
        if folder or status.st_nlink == 1:
            node = Folder({}, status.st_mode & 0o7777) if folder else tree.leaf(path)
            self.volume.last_name_lost(number, node)
            self.faults.release(status.st_size)
            del self._numbers[status.st_ino]  # the kernel gives it to another file

    def _place(self, path: str) -> tuple[int, str]:
        parent, _, name = path.rpartition("/")
        return self._number(os.stat(parent).st_ino), name

    def scan(self) -> Tree:
        """Return what processes see now."""
        return tree.scan(self.root, self._number)

    def cut(self) -> None:
        """Make the tree what a power cut now leaves. No process of the machine may be alive."""
        tree.rebuild(self.root, self.volume.cut(self.scan(), self.chance))
        self.faults = Faults()
        self._load()

    def abandon(self, path: str) -> None:
        """Leave a file of SQLite, with its shared memory, to a dead process that cannot close it; keep a copy."""
        if os.path.exists(path):
            number = self._numbers.pop(os.lstat(path).st_ino, None)
            tree.replace_inode(path)
            if number is not None:
                self._numbers[os.lstat(path).st_ino] = number
        if os.path.exists(f"{path}{tree.TRANSIENT}"):
            os.unlink(f"{path}{tree.TRANSIENT}")

    def backup(self, path: str) -> dict[str, Leaf]:
        """Return copies of a file and of those that SQLite keeps beside it, to be restored later."""
        names = (path, f"{path}-wal")
        return {name: tree.leaf(name) for name in names if os.path.exists(name)}

    def restore(self, path: str, copies: dict[str, Leaf]) -> None:
        """Put an older file in the place of one that no living process has open; it is durable."""
        for name in (path, f"{path}-wal", f"{path}{tree.TRANSIENT}"):
            if os.path.exists(name):
                os.unlink(name)
        for name, node in copies.items():
            tree.create(name, node)
        self._load()

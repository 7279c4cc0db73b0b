"""What is on disk for sure, and what a power cut makes of the rest: pure.

Contents are durable by fsync of the file, names by fsync of the directory. Between two of these, a directory is on disk
as it was after any number of its operations; a rename is one of them. Files and directories have numbers, as inodes.
"""

import random
from collections.abc import Iterator

import msgspec

from tests.simulation.disk.pages import PAGE, Write, apply, settle

ROOT = 1
OPERATIONS = 64
"""Operations of a directory without fsync that are told apart; the oldest are taken together."""
GONE = 256
"""Removed files before those that no directory knows are forgotten."""

Operation = dict[str, int | None]
"""Names that one operation changed, and what each stands for since; None: nothing."""


class Leaf(msgspec.Struct):
    """A file, or a symbolic link."""

    data: bytes
    mode: int = 0o600
    link: str | None = None


class Folder(msgspec.Struct):
    entries: dict[str, int]
    mode: int = 0o700


Tree = dict[int, Leaf | Folder]
"""All that is reachable from ROOT, by number."""


class StoredFile(msgspec.Struct):
    durable: bytearray = msgspec.field(default_factory=bytearray)
    writes: list[Write] = msgspec.field(default_factory=list)
    """Since the last fsync, of a file of which each write is known."""
    failed: bytes | None = None
    """The content that an fsync reported as not written: it counts as clean, and stays off the disk until rewritten."""


class StoredFolder(msgspec.Struct):
    durable: dict[str, int] = msgspec.field(default_factory=dict)
    operations: list[Operation] = msgspec.field(default_factory=list)

    def latest(self) -> dict[str, int]:
        return _after(self.durable, self.operations)

    def did(self, operation: Operation) -> None:
        self.operations.append(operation)
        if len(self.operations) > OPERATIONS:
            oldest = self.operations.pop(0)
            self.operations[0] = {**oldest, **self.operations[0]}


class Volume:
    """The durable state of one disk. `logged` files are those of which each write is known."""

    def __init__(self, tree: Tree) -> None:
        self._files: dict[int, StoredFile] = {}
        self._folders: dict[int, StoredFolder] = {}
        self._gone: Tree = {}
        for number, node in tree.items():
            if isinstance(node, Leaf):
                self._files[number] = StoredFile(bytearray(node.data))
            else:
                self._folders[number] = StoredFolder(dict(node.entries))

    def durable(self, number: int) -> bytes:
        return bytes(self._file(number).durable)

    def wrote(self, number: int, offset: int, data: bytes) -> None:
        self._file(number).writes.append((offset, data))

    def truncated(self, number: int, size: int) -> None:
        self._file(number).writes.append((size, None))

    def synced(self, number: int, content: bytes | None = None) -> None:
        """Make a file durable; `content` is None for one of which each write is known."""
        file = self._file(number)
        if content is not None:
            file.writes = _difference(file.durable if file.failed is None else file.failed, content)
            file.failed = None
        apply(file.durable, file.writes)
        file.writes = []

    def sync_failed(self, number: int, content: bytes | None = None) -> None:
        """Forget what was written since the last fsync, as the kernel does: the next fsync says nothing of it."""
        file = self._file(number)
        file.writes = []
        file.failed = content

    def synced_folder(self, number: int, entries: dict[str, int]) -> None:
        folder = self._folder(number)
        folder.durable, folder.operations = dict(entries), []

    def renamed(self, source: tuple[int, str], target: tuple[int, str], number: int) -> None:
        """Record a rename; from one directory to another it is two operations, of which one may be lost."""
        self._known(source, number)
        if source[0] == target[0]:
            self._folder(source[0]).did({source[1]: None, target[1]: number})
            return
        self._folder(target[0]).did({target[1]: number})
        self._folder(source[0]).did({source[1]: None})

    def removed(self, place: tuple[int, str], number: int) -> None:
        self._known(place, number)
        self._folder(place[0]).did({place[1]: None})

    def last_name_lost(self, number: int, node: Leaf | Folder) -> None:
        """Keep what a file without a name holds: a power cut may bring its name back."""
        if len(self._gone) >= GONE:
            self._forget()
        self._gone[number] = node

    def cut(self, current: Tree, chance: random.Random) -> Tree:
        """Draw what is on disk after a power cut now; `current` is what the processes saw."""
        left: Tree = {}
        waiting = [ROOT]
        while waiting:
            number = waiting.pop()
            if number in left:
                continue
            node = current.get(number) or self._gone.get(number) or _unknown(number in self._folders)
            if isinstance(node, Leaf):
                left[number] = self._cut_file(number, node, chance)
            else:
                entries = self._cut_folder(number, node, chance)
                left[number] = Folder(entries, node.mode)
                waiting.extend(entries.values())
        return left

    def _cut_file(self, number: int, node: Leaf, chance: random.Random) -> Leaf:
        if node.link is not None:
            return node
        file = self._file(number)
        writes = file.writes or _difference(file.durable if file.failed is None else file.failed, node.data)
        return Leaf(settle(bytes(file.durable), writes, chance), node.mode)

    def _cut_folder(self, number: int, node: Folder, chance: random.Random) -> dict[str, int]:
        folder = self._folder(number)
        done = _after(folder.durable, folder.operations[: chance.randint(0, len(folder.operations))])
        latest = folder.latest()
        for name in sorted(latest.keys() | node.entries.keys()):  # what nobody recorded, each for itself
            now = node.entries.get(name)
            if now != latest.get(name) and chance.random() < 0.5:
                done = _after(done, [{name: now}])
        return dict(sorted(done.items()))

    def _known(self, place: tuple[int, str], number: int) -> None:
        """Record that a name was made, if nobody did."""
        folder = self._folder(place[0])
        if folder.latest().get(place[1]) != number:
            folder.did({place[1]: number})

    def _file(self, number: int) -> StoredFile:
        return self._files.setdefault(number, StoredFile())

    def _folder(self, number: int) -> StoredFolder:
        return self._folders.setdefault(number, StoredFolder())

    def _forget(self) -> None:
        named = set(self._named())
        for number in [each for each in self._gone if each not in named]:
            del self._gone[number]
            self._files.pop(number, None)
            self._folders.pop(number, None)

    def _named(self) -> Iterator[int]:
        for folder in self._folders.values():
            yield from folder.durable.values()
            for operation in folder.operations:
                yield from (number for number in operation.values() if number is not None)


def _after(entries: dict[str, int], operations: list[Operation]) -> dict[str, int]:
    result: dict[str, int | None] = dict(entries)
    for operation in operations:
        result.update(operation)
    return {name: number for name, number in result.items() if number is not None}


def _difference(old: bytes | bytearray, new: bytes) -> list[Write]:
    """Return the writes that make one content of the other, by page."""
    if old == new:
        return []
    writes: list[Write] = []
    for place in range(0, len(new), PAGE):
        page = new[place : place + PAGE]
        if old[place : place + len(page)] != page:
            writes.append((place, page))
    if len(new) < len(old):
        writes.append((len(new), None))
    return writes


def _unknown(folder: bool) -> Leaf | Folder:
    return Folder({}) if folder else Leaf(b"")

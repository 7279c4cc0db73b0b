"""Read and write directory trees. Sockets, pipes and SQLite's shared memory do not outlive the machine: left out."""

import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.simulation.disk.volume import ROOT, Folder, Leaf, Tree

TRANSIENT = "-shm"
_open, _rename = open, os.rename
"""Not what the hooks put in their place."""


def scan(root: Path, number_of: Callable[[int], int]) -> Tree:
    """Return all below `root`; `number_of` maps inodes to numbers."""
    tree: Tree = {}
    waiting = [(ROOT, str(root))]
    while waiting:
        number, path = waiting.pop()
        entries = {}
        for name, inode, kind in listed(path):
            child = entries[name] = number_of(inode)
            if kind is Folder:
                waiting.append((child, f"{path}/{name}"))
            elif child not in tree:
                tree[child] = leaf(f"{path}/{name}")
        tree[number] = Folder(entries, stat.S_IMODE(os.stat(path).st_mode))
    return tree


def listed(path: str) -> Iterator[tuple[str, int, type[Leaf | Folder]]]:
    """Yield name, inode and kind of what lasts in a directory, by name."""
    with os.scandir(path) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_symlink() or (entry.is_file() and not entry.name.endswith(TRANSIENT)):
            yield entry.name, entry.inode(), Leaf
        elif entry.is_dir():
            yield entry.name, entry.inode(), Folder


def lasts(path: str) -> bool:
    """Return True for what outlives the machine."""
    mode = os.lstat(path).st_mode
    return stat.S_ISDIR(mode) or stat.S_ISLNK(mode) or (stat.S_ISREG(mode) and not path.endswith(TRANSIENT))


def leaf(path: str) -> Leaf:
    """Read a file or a link."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode):
        return Leaf(b"", link=os.readlink(path))
    return Leaf(content(path), stat.S_IMODE(status.st_mode))


def content(path: str) -> bytes:
    with _open(path, "rb") as file:
        return file.read()


def create(path: str, node: Leaf) -> None:
    """Write a new file."""
    with _open(path, "xb") as file:
        file.write(node.data)
    os.chmod(path, node.mode)


def replace_inode(path: str) -> None:
    """Give a path to a copy of its file: who has the file open has another one since."""
    copy = f"{path}.fresh"
    create(copy, leaf(path))
    _rename(copy, path)


def rebuild(root: Path, tree: Tree) -> None:
    """Replace all below `root`, by new inodes: whoever still holds the old ones holds nothing of the new."""
    fresh = root.with_name(f"{root.name}.fresh")
    old = root.with_name(f"{root.name}.old")
    made: dict[int, Path] = {}
    _make(fresh, ROOT, tree, made)
    os.rename(root, old)
    os.rename(fresh, root)
    shutil.rmtree(old)


def _make(path: Path, number: int, tree: Tree, made: dict[int, Path]) -> None:
    node = tree[number]
    if isinstance(node, Folder):
        path.mkdir(mode=0o700)
        for name, child in node.entries.items():
            _make(path / name, child, tree, made)
        path.chmod(node.mode)
    elif node.link is not None:
        path.symlink_to(node.link)
    elif number in made:
        path.hardlink_to(made[number])
    else:
        made[number] = path
        path.write_bytes(node.data)
        path.chmod(node.mode)

"""Whose a directory is, and who may change it: a plane starts on directories that nobody else can write or replace.

Root reads keys, static pods, CDI files and shims' records below ROOT and acts on them; whoever can write one of these
directories, or put another in its place, is root. So each is refused that belongs to somebody else, or that others
may write, and so is each directory or symbolic link on the way to it. A sticky directory like /tmp may be everybody's:
nobody can replace there what is not theirs.
"""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from protocols.process.files import write_atomic
from protocols.process.layout import Layout
from supervisor.base.errors import DirectoryNotTrusted, RootUnusable

ROOT_UID = 0
MOST_LINKS = 40
"""Symbolic links on the way to one directory, the kernel's own figure."""
OTHERS_WRITE = stat.S_IWOTH
GROUP_WRITE = stat.S_IWGRP


class Step(NamedTuple):
    """A directory, symbolic link or file on the way to a path, the last one included."""

    path: Path
    state: os.stat_result


def check_directory(path: Path, *, shared: bool = False) -> None:
    """Raise DirectoryNotTrusted unless `path` is ours and nobody else can write or replace it.

    A `shared` directory may be root's. What does not exist yet is no fault: its nearest parent is looked at.
    """
    steps = list(way(path))
    for number, step in enumerate(steps):
        is_target = number == len(steps) - 1 and os.path.lexists(path) and not stat.S_ISLNK(step.state.st_mode)
        owners = {os.geteuid()} if is_target and not shared else {os.geteuid(), ROOT_UID}
        _check_step(step, owners, is_parent=not is_target)


def check_files(directory: Path) -> None:
    """Raise DirectoryNotTrusted for the first file of a checked directory that is somebody else's to change."""
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        _check_step(Step(path, path.lstat()), {os.geteuid(), ROOT_UID}, is_parent=False)


def _check_step(step: Step, owners: set[int], *, is_parent: bool) -> None:
    path, state = step
    if state.st_uid not in owners:
        mine = _user(os.geteuid())
        raise DirectoryNotTrusted(
            f"{path} belongs to {_user(state.st_uid)}, who could put other keys there; if you trust what it holds,"
            f" `chown {mine} {path}`, else use another --root"
        )
    if stat.S_ISLNK(state.st_mode) or (is_parent and state.st_mode & stat.S_ISVTX):
        return  # nobody but its owner changes a link, or replaces what is in a sticky directory
    if writable_by_others(state):
        raise DirectoryNotTrusted(
            f"{path} can be written by others (mode {stat.S_IMODE(state.st_mode):04o}), who could put other keys"
            f" there; if you trust what it holds, `chmod go-w {path}`, else use another --root"
        )


def writable_by_others(state: os.stat_result) -> bool:
    """True when anybody but the owner may write. A group that is the owner's alone counts as the owner."""
    if state.st_mode & OTHERS_WRITE:
        return True
    return bool(state.st_mode & GROUP_WRITE) and not _is_private(state.st_gid, state.st_uid)


def way(path: Path) -> Iterator[Step]:
    """Every directory and symbolic link from / to `path`, links followed, as far as they exist. Raises OSError."""
    left, here, links = list(path.absolute().parts), Path("/"), 0
    yield Step(here, here.lstat())
    left.pop(0)
    while left:
        part = left.pop(0)
        if part == "..":
            here = here.parent
            continue
        step = here / part
        try:
            state = step.lstat()
        except FileNotFoundError:
            return
        yield Step(step, state)
        if not stat.S_ISLNK(state.st_mode):
            here = step
            continue
        links += 1
        if links > MOST_LINKS:
            raise DirectoryNotTrusted(f"{path} leads through more than {MOST_LINKS} symbolic links; use another --root")
        target = step.readlink()
        here = Path("/") if target.is_absolute() else here
        left = [part for part in target.parts if part != "/"] + left


def _is_private(gid: int, uid: int) -> bool:
    """True for a group named as its user, with no other members: Debian's umask lets it write."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(uid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


CLOSED, OPEN = 0o700, 0o711
PROBE = b"\0" * 4096


def make_directories(where: Layout) -> None:
    """Make ROOT and what the supervisor keeps in it, and prove that the disk takes a write.

    Raises RootUnusable, and DirectoryNotTrusted before anything is written where others could have been before.
    """
    try:
        check_trust(where)
        for path in (where.root, where.kubelet):
            _make(path, OPEN)
        for path in (where.run, where.logs, where.store, where.runtime, where.devices):
            _make(path, CLOSED)
        check_trust(where)  # between the first check and making them somebody else may have made them
        where.run.chmod(CLOSED)
        probe = where.run / f".probe-{os.getpid()}"  # groups of one plane start side by side
        write_atomic(probe, PROBE)
        probe.unlink()
    except OSError as error:
        raise RootUnusable(
            f"cannot write below {where.root}: {error.strerror}; free some space, mend its permissions or use --root"
        ) from None


def check_trust(where: Layout) -> None:
    """Raise DirectoryNotTrusted for what others can write: keys, state, and whatever is run as the plane's user."""
    etcd = where.etcd_ca.parent
    for path in (where.root, where.run, where.pki, etcd, where.store, where.runtime, where.devices, where.logs):
        check_directory(path)
    for path in (where.root / "nodes", where.root / "pods", where.pod_logs, where.cdi):
        check_directory(path)
    for path in (where.kubelet, where.kubelet / "manifests"):
        check_directory(path, shared=True)
    for path in (where.pki, etcd):
        check_files(path)


def _make(path: Path, mode: int) -> None:
    if not path.is_dir():
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(mode)

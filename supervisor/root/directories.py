"""Make ROOT and the directories in it, and check that no other user can write or replace them.

Root reads keys, static pods, CDI files and records of shims below ROOT and acts on them: whoever can write or replace
one of these directories is root. So a plane does not start on a directory that belongs to another user or that others
may write, nor if that is true of a directory or symbolic link on the path to it. A sticky directory such as /tmp may be
writable by all, since only the owner of an entry can replace it there.
"""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from protocols.process.files import make_directory, write_atomic
from protocols.process.layout import Layout
from protocols.process.sockets import prepare_directory
from supervisor.base.errors import DirectoryNotTrusted, RootUnusable
from supervisor.root.format import check_format, mark_format

ROOT_UID = 0
MAX_LINKS = 40
"""Symbolic links on a path; the limit of the kernel."""
OTHERS_WRITE = stat.S_IWOTH
GROUP_WRITE = stat.S_IWGRP


class PathStep(NamedTuple):
    """A directory, symbolic link or file on a path, its end included."""

    path: Path
    state: os.stat_result


def check_directory(path: Path, *, shared: bool = False) -> None:
    """Raise DirectoryNotTrusted unless `path` is ours and nobody else can write or replace it, RootUnusable for a file.

    A `shared` directory may belong to root. For a path that does not exist yet, its nearest parent is checked.
    """
    if path.exists() and not path.is_dir():
        raise RootUnusable(f"{path} is no directory; use another one")
    steps = list(path_steps(path))
    for number, step in enumerate(steps):
        is_target = number == len(steps) - 1 and os.path.lexists(path) and not stat.S_ISLNK(step.state.st_mode)
        owners = {os.geteuid()} if is_target and not shared else {os.geteuid(), ROOT_UID}
        _check_step(step, owners, is_parent=not is_target)


def check_files(directory: Path) -> None:
    """Raise DirectoryNotTrusted for the first file of a checked directory that another user can change."""
    for path in sorted(directory.iterdir()) if directory.is_dir() else ():
        with suppress(FileNotFoundError):  # temporary files of a group that starts beside this one
            _check_step(PathStep(path, path.lstat()), {os.geteuid(), ROOT_UID}, is_parent=False)


def _check_step(step: PathStep, owners: set[int], *, is_parent: bool) -> None:
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
    """Return True if anybody but the owner may write. A private group counts as its owner."""
    if state.st_mode & OTHERS_WRITE:
        return True
    return bool(state.st_mode & GROUP_WRITE) and not _is_private(state.st_gid, state.st_uid)


def path_steps(path: Path) -> Iterator[PathStep]:
    """Yield every directory and symbolic link from / to `path`, as far as they exist, and follow links.

    Raises OSError.
    """
    left, here, links = list(path.absolute().parts), Path("/"), 0
    yield PathStep(here, here.lstat())
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
        yield PathStep(step, state)
        if not stat.S_ISLNK(state.st_mode):
            here = step
            continue
        links += 1
        if links > MAX_LINKS:
            raise DirectoryNotTrusted(f"{path} leads through more than {MAX_LINKS} symbolic links; use another --root")
        target = step.readlink()
        here = Path("/") if target.is_absolute() else here
        left = [part for part in target.parts if part != "/"] + left


def _is_private(gid: int, uid: int) -> bool:
    """Return True for a group with the name of its user and no other members; Debian's umask lets it write."""
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


CLOSED, OPEN, PLUGINS = 0o700, 0o711, 0o750
PROBE = b"\0" * 4096


def make_directories(where: Layout) -> None:
    """Make ROOT and the supervisor's directories in it, and prove that the disk can be written.

    Raises RootUnusable, and before anything is written, DirectoryNotTrusted for a directory of others, or RootTooNew.
    """
    try:
        check_trust(where)
        check_format(where.root)
        make_directory(where.root, OPEN)
        prepare_directory(where.kubelet, OPEN)
        prepare_directory(where.plugins, PLUGINS)
        for path in (where.run, where.logs, where.store, where.runtime, where.devices):
            prepare_directory(path, CLOSED)
        check_trust(where)  # another user may have made them since the first check
        where.run.chmod(CLOSED)
        probe = where.run / f".probe-{os.getpid()}"  # groups of one plane start side by side
        write_atomic(probe, PROBE)
        probe.unlink()
        mark_format(where.root)
    except OSError as error:
        at, flag = _failed_below(where, error)
        raise RootUnusable(
            f"cannot write below {at}: {error.strerror}; free some space, mend its permissions or use {flag}"
        ) from None


def _failed_below(where: Layout, error: OSError) -> tuple[Path, str]:
    """Return the directory that an error concerns, with its flag: the kubelet's may be outside of ROOT."""
    failed = Path(error.filename or where.root)
    on_the_way = failed.is_relative_to(where.root) or where.root.is_relative_to(failed)
    return (where.root, "--root") if on_the_way else (where.kubelet, "--kubelet-dir")


def check_trust(where: Layout) -> None:
    """Raise DirectoryNotTrusted if others can write keys, state, or anything that runs as the user of the plane."""
    etcd = where.etcd_ca.parent
    for path in (where.root, where.run, where.pki, etcd, where.store, where.runtime, where.devices, where.logs):
        check_directory(path)
    for path in (where.root / "nodes", where.root / "pods", where.root / "memory", where.pod_logs, where.cdi):
        check_directory(path)
    for path in (where.kubelet, where.kubelet / "manifests"):
        check_directory(path, shared=True)
    for path in (where.pki, etcd):
        check_files(path)

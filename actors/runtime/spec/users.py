"""User, groups and capabilities of a container's processes. Pure, except for reading the user databases."""

import contextlib
import os
import stat
from collections.abc import Iterable
from typing import NamedTuple

from actors.runtime.model.containers import Image
from actors.runtime.model.errors import InvalidRequest
from protocols.process.beneath import Walk, open_beneath, proc_path
from protocols.wire import cri_pb2 as pb

# fmt: off
NAMES = (
    "CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL",
    "SETGID", "SETUID", "SETPCAP", "LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST",
    "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER", "SYS_MODULE", "SYS_RAWIO",
    "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
    "SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE",
    "AUDIT_CONTROL", "SETFCAP", "MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM",
    "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF", "CHECKPOINT_RESTORE",
)
# fmt: on
"""In the kernel's order: the index is the number."""
ALL = frozenset(range(len(NAMES)))


# fmt: off
DEFAULT = frozenset(NAMES.index(name) for name in (
    "CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID",
    "SETUID", "SETFCAP", "SETPCAP", "NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
))
# fmt: on
"""Capabilities of a container that requests none, as containerd's."""


def dropped(context: pb.LinuxContainerSecurityContext) -> list[int]:
    """Return numbers of capabilities to drop. ALL comes first in both lists. Raises InvalidRequest."""
    add, drop = _numbers(context.capabilities.add_capabilities), _numbers(context.capabilities.drop_capabilities)
    if context.privileged:
        return []
    held = ALL if add.all else DEFAULT
    held = frozenset() if drop.all else held
    return sorted(ALL - ((held | add.named) - drop.named))


class _Numbers(NamedTuple):
    all: bool
    named: frozenset[int]


def _numbers(names: Iterable[str]) -> _Numbers:
    plain = [name.upper().removeprefix("CAP_") for name in names]
    if strange := [name for name in plain if name != "ALL" and name not in NAMES]:
        raise InvalidRequest(f'there is no capability "{strange[0]}"')
    return _Numbers("ALL" in plain, frozenset(NAMES.index(name) for name in plain if name != "ALL"))


MOST_BYTES = 1 << 20
"""Bytes read of a user database; the rest is ignored."""
MOST_ID = 2**31 - 1
"""Largest user and group id of an OCI runtime and of kubelet."""
MOST_GROUPS = 1024
"""Groups that an image may give its user: each status has them all."""
MOST_SHOWN = 80


class _User(NamedTuple):
    uid: int = -1
    """-1: same as the runtime."""
    gid: int = -1
    groups: tuple[int, ...] = ()
    """All groups, the primary one first."""
    home: str = ""
    """Home directory; empty: the runtime's."""


def user_of(context: pb.LinuxContainerSecurityContext, image: Image | None) -> _User:
    """Return the user of the request, else of the image. Raises InvalidRequest, also for what only root may do."""
    database = _UserDatabase(image.root if image else "/")
    named = context.run_as_username or (image.config.user if image else "")
    if context.HasField("run_as_user"):
        uid, gid = database.find(str(context.run_as_user.value))
    elif named:
        uid, gid = database.find(named)
    else:
        uid, gid = (0, 0) if image else (-1, -1)
    if context.HasField("run_as_group"):
        gid = _id(context.run_as_group.value)
    merged = image is not None and context.supplemental_groups_policy == pb.Merge
    own = (os.getegid() if gid < 0 else gid, *(database.groups_of(uid) if merged else ()))
    groups = tuple(dict.fromkeys((*own, *map(_id, context.supplemental_groups))))
    _permit(uid, groups)
    return _User(uid, gid, groups, "" if uid < 0 else database.home_of(uid))


def shown_user(context: pb.LinuxContainerSecurityContext, image: Image | None) -> tuple[int, ...]:
    """Return the user, its group and all groups of `user_of` for reports, with the runtime's own in place of -1."""
    uid, gid, groups, _ = user_of(context, image)
    return (os.geteuid() if uid < 0 else uid, os.getegid() if gid < 0 else gid, *groups)


def _permit(uid: int, groups: tuple[int, ...]) -> None:
    if os.geteuid() == 0:
        return
    if uid not in (-1, os.geteuid()):
        raise InvalidRequest(f"run_as_user {uid} needs nodeplane to run as root")
    if strange := sorted(set(groups) - {os.getegid(), *os.getgroups()}):
        raise InvalidRequest(f"group {strange[0]} needs nodeplane to run as root")


def _is_id(text: str) -> bool:
    return text.isdecimal() and len(text) <= len(str(MOST_ID)) and int(text) <= MOST_ID


def _id(number: int) -> int:
    if not 0 <= number <= MOST_ID:
        raise InvalidRequest(f"user and group ids are 0 to {MOST_ID}, not {number}")
    return number


class _UserDatabase:
    """User database (/etc/passwd and /etc/group) of the host, or of an image below its root."""

    def __init__(self, root: str) -> None:
        self._root = "" if root == "/" else root

    def find(self, user: str) -> tuple[int, int]:
        """Resolve `name`, `uid`, `name:group` or `uid:gid`. A user that has only a number has the group 0."""
        name, _, group = user.partition(":")
        name = name or "0"
        entry = self._entry(name)
        if entry is None and not _is_id(name):
            raise InvalidRequest(f'user "{name[:MOST_SHOWN]}" does not exist {self._where()}')
        uid, gid = (int(entry[2]), int(entry[3])) if entry else (int(name), 0)
        return uid, self._group(group) if group else gid

    def home_of(self, uid: int) -> str:
        """Return the home directory of a user; `/` if it has none."""
        entry = self._entry(str(uid))
        return (entry[5] if entry and len(entry) > 5 else "") or "/"

    def groups_of(self, uid: int) -> tuple[int, ...]:
        """Return the groups that have the user as a member. Raises InvalidRequest for too many."""
        entry = self._entry(str(uid))
        lines = self._lines("group", 1) if entry else []
        groups = tuple(int(line[2]) for line in lines if len(line) > 3 and entry and entry[0] in line[3].split(","))
        if len(groups) > MOST_GROUPS:
            raise InvalidRequest(f"user {uid} is in {len(groups)} groups {self._where()}, more than {MOST_GROUPS}")
        return groups

    def _entry(self, user: str) -> list[str] | None:
        """Return the line of a name, or of a number."""
        field = 2 if user.isdecimal() else 0
        return next((line for line in self._lines("passwd", 2) if line[field] == user), None)

    def _group(self, name: str) -> int:
        if _is_id(name):
            return int(name)
        for line in self._lines("group", 1):
            if line[0] == name:
                return int(line[2])
        raise InvalidRequest(f'group "{name[:MOST_SHOWN]}" does not exist {self._where()}')

    def _where(self) -> str:
        return "in the image" if self._root else "on this host"

    def _lines(self, name: str, ids: int) -> list[list[str]]:
        """Return the lines that have `ids` ids after the password."""
        data = b""
        with contextlib.suppress(OSError):
            data = _read(self._root or "/", f"etc/{name}")
        lines = [line.split(":") for line in data.decode(errors="replace").splitlines()]
        return [line for line in lines if len(line) >= 2 + ids and all(map(_is_id, line[2 : 2 + ids]))]


def _read(root: str, path: str) -> bytes:
    """Read a file as a container of the image sees it; empty for anything but a regular file. Raises OSError."""
    top = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = open_beneath(top, path, Walk(in_root=True))
    finally:
        os.close(top)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return b""  # opening a pipe of the image's would wait for its writer
        with open(proc_path(descriptor), "rb") as file:
            return file.read(MOST_BYTES)
    finally:
        os.close(descriptor)

"""Find out whether this process can isolate containers: new namespaces, mounts of their own and a proc for each.

A capability is not enough: security modules deny mounts to root, and a masked /proc forbids another proc beside it.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from protocols.process import linux

NAMESPACES = {"mnt": 0x00020000, "uts": 0x04000000, "pid": 0x20000000}
"""Namespaces of every isolated container by their names in /proc/PID/ns, with the flags of unshare(2)."""
CAP_SYS_ADMIN = 21


def has_sys_admin(proc: Path = Path("/proc")) -> bool:
    """Return True for a process with CAP_SYS_ADMIN, which root of a container may lack."""
    try:
        lines = (proc / "self" / "status").read_text().splitlines()
    except OSError:
        return False
    held = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(held, 16) >> CAP_SYS_ADMIN & 1)


def try_namespaces() -> str:
    """Make namespaces and the mounts of a container; return the kernel's reason why that fails, or "".

    A thread of its own takes them along when it ends: nothing of this process changes, and nothing forks.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_try).result()


def _try() -> str:
    try:
        linux.unshare(sum(NAMESPACES.values()))
        linux.mount("none", "/", linux.RECURSIVE | linux.SLAVE)
        linux.mount("proc", "/proc", linux.NOSUID | linux.NODEV | linux.NOEXEC, "proc")
    except OSError as error:
        return os.strerror(error.errno or 0)
    return ""

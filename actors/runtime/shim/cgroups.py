"""A container's cgroups, from the side of its processes: join them, see who was killed for want of memory, leave."""

import contextlib
import os


def join(groups: tuple[str, ...]) -> None:
    """The calling process. Raises RuntimeError: without its limits a container does not run."""
    for group in groups:
        try:
            _write(f"{group}/cgroup.procs", b"0")
        except OSError as error:
            raise RuntimeError(f"cgroup {group}: {os.strerror(error.errno or 0).lower()}") from None


def kills(counter: str) -> int:
    """How many processes the kernel has killed because memory ran out."""
    try:
        with open(counter) as file:
            counts = dict(line.split() for line in file)
        return int(counts.get("oom_kill", "0"))
    except (OSError, ValueError):
        return 0


def remove(groups: tuple[str, ...]) -> None:
    """Nobody is left in them."""
    for group in groups:
        with contextlib.suppress(OSError):
            os.rmdir(group)


def adjust_oom_score(value: int) -> None:
    """To be killed earlier is allowed to everybody; later only with CAP_SYS_RESOURCE, and is let be otherwise."""
    with contextlib.suppress(OSError):
        _write("/proc/self/oom_score_adj", str(value).encode())


def _write(path: str, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)

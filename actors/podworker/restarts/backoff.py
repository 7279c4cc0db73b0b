"""Crash back-off of containers: first restart at once, then 10, 20 ... 300 s after the end of the last run. Pure."""

from actors.podworker.types import SECOND, BackoffEntry
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus

INITIAL_NS = 10 * SECOND
MAXIMUM_NS = 300 * SECOND
RESET_NS = 2 * MAXIMUM_NS


def expired(entry: BackoffEntry, finished_ns: int) -> bool:
    """The container ran long enough since the last restart: its next crash counts as the first."""
    return finished_ns - entry.updated_ns > RESET_NS


def ready_ns(entry: BackoffEntry | None, finished_ns: int) -> int:
    """When a container whose run ended at `finished_ns` may start again; 0 = at once."""
    if entry is None or expired(entry, finished_ns):
        return 0
    return finished_ns + entry.delay_ns


def advance(entry: BackoffEntry | None, finished_ns: int, now_ns: int, spec_hash: str = "") -> BackoffEntry:
    """The entry after a restart at `now_ns` of a container whose last run ended at `finished_ns`."""
    fresh = entry is None or expired(entry, finished_ns) or entry.hash != spec_hash
    delay = INITIAL_NS if fresh or entry is None else min(max(entry.delay_ns * 2, INITIAL_NS), MAXIMUM_NS)
    return BackoffEntry(delay_ns=delay, updated_ns=now_ns, hash=spec_hash)


def recover(restart_count: int, started_ns: int, spec_hash: str) -> BackoffEntry | None:
    """The entry a container's history implies, for a podworker that has just started and remembers nothing."""
    if restart_count <= 0:
        return None
    delay = min(INITIAL_NS << min(restart_count - 1, 10), MAXIMUM_NS)
    return BackoffEntry(delay_ns=delay, updated_ns=started_ns, hash=spec_hash)


def pardon(finished_ns: int, spec_hash: str) -> BackoffEntry:
    """The entry of a container whose last run, ended at `finished_ns`, was stopped together with its node."""
    return BackoffEntry(delay_ns=0, updated_ns=finished_ns, hash=spec_hash)


def pardoned(entry: BackoffEntry | None, finished_ns: int) -> bool:
    """The run that ended at `finished_ns` is not to be counted as a crash."""
    return entry is not None and not entry.delay_ns and finished_ns <= entry.updated_ns


def recover_all(status: PodStatus) -> dict[str, BackoffEntry]:
    """Entries of every container name, from the newest status of each.

    A sandbox ends when the plane or the machine is shut down; so what ended with one did not crash, and as many of the
    restarts as there were sandboxes before were none of the container's.
    """
    sandboxes = {sandbox.id: sandbox for sandbox in status.sandboxes}
    book: dict[str, BackoffEntry] = {}
    seen: set[str] = set()
    for container in status.containers:  # newest first
        if container.name not in seen and (entry := _recovered(container, sandboxes.get(container.sandbox_id))):
            book[container.name] = entry
        seen.add(container.name)
    return book


def _recovered(container: ContainerStatus, sandbox: SandboxStatus | None) -> BackoffEntry | None:
    if sandbox is None or not sandbox.ready:
        return pardon(container.finished_ns, container.spec_hash)
    return recover(container.restart_count - sandbox.attempt, container.started_ns, container.spec_hash)


def describe(delay_ns: int) -> str:
    """`10s`, `1m20s`, `5m0s`: a duration as kubectl's users know it."""
    minutes, seconds = divmod(delay_ns // SECOND, 60)
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"

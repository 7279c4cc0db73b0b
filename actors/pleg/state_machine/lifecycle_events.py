"""Which lifecycle events lie between two views of one pod. Pure (upstream's generic PLEG table)."""

from collections.abc import Mapping

from protocols.messages.pleg import PodLifecycleEvent, PodStatus

STARTED, DIED, REMOVED, SYNC = "ContainerStarted", "ContainerDied", "ContainerRemoved", "PodSync"
ABSENT, RUNNING, EXITED, UNKNOWN = "non-existent", "running", "exited", "unknown"

States = Mapping[str, str]
"""Container or sandbox id -> running, exited or unknown."""


def states_of(status: PodStatus | None) -> dict[str, str]:
    """Sandboxes go through the same table as containers, with their own ids; created counts as unknown."""
    if status is None:
        return {}
    known = (RUNNING, EXITED)
    found = {item.id: item.state if item.state in known else UNKNOWN for item in status.containers}
    return found | {item.id: RUNNING if item.ready else EXITED for item in status.sandboxes}


def changes(uid: str, old: States, new: States) -> list[PodLifecycleEvent]:
    """Events in order of death first, so that a follower frees before it takes. A change to unknown gives none."""
    events: list[PodLifecycleEvent] = []
    for id_ in sorted(old.keys() | new.keys()):
        events += _of_one(uid, id_, old.get(id_, ABSENT), new.get(id_, ABSENT))
    return sorted(events, key=lambda event: event.type == STARTED)


def _of_one(uid: str, id_: str, old: str, new: str) -> list[PodLifecycleEvent]:
    if old == new:
        return []
    types = {
        RUNNING: [STARTED],
        EXITED: [DIED],
        UNKNOWN: [],
        ABSENT: [REMOVED] if old == EXITED else [DIED, REMOVED],
    }[new]
    return [PodLifecycleEvent(uid=uid, type=type_, id=id_) for type_ in types]


KILLED = 128 + 9
OOM = "OOMKilled"
LATE_S = 1.0
"""After so long such a pod is inspected once more."""


def may_be_told_more(before: States, status: PodStatus | None) -> bool:
    """A container's end is new, and looks like what the kernel does where memory ran out."""
    return status is not None and any(
        item.state == EXITED and item.exit_code == KILLED and item.reason != OOM and before.get(item.id) != EXITED
        for item in status.containers
    )

"""Derive lifecycle events from two consecutive views of one pod. Pure; the table of upstream's generic PLEG.

| old -> new | events |
|---|---|
| any -> running | ContainerStarted |
| any -> exited | ContainerDied |
| any -> unknown | none |
| exited -> gone | ContainerRemoved |
| any other -> gone | ContainerDied, ContainerRemoved |

Sandboxes go through the same table as containers, under their own ids. A created container counts as unknown.
"""

from collections.abc import Mapping
from enum import Enum

from protocols.messages.pleg import PodLifecycleEvent, PodStatus

STARTED, DIED, REMOVED = "ContainerStarted", "ContainerDied", "ContainerRemoved"
ABSENT, RUNNING, EXITED, UNKNOWN = "non-existent", "running", "exited", "unknown"


class Source(Enum):
    """Origin of a lifecycle event."""

    EVENT = "event"
    """The content of a CRI event."""
    INSPECTION = "inspection"
    """The inspection of one pod, because of an event or a request."""
    RELIST = "relist"


States = Mapping[str, str]
"""Container or sandbox id -> running, exited or unknown."""


def states_of(status: PodStatus | None) -> dict[str, str]:
    """Return the state of each container and sandbox by id, as the table has it; none of a pod that is gone."""
    if status is None:
        return {}
    known = (RUNNING, EXITED)
    states = {item.id: item.state if item.state in known else UNKNOWN for item in status.containers}
    return states | {item.id: RUNNING if item.ready else EXITED for item in status.sandboxes}


def changes(uid: str, old: States, new: States) -> list[PodLifecycleEvent]:
    """Return the events between two views. Deaths come first, so that followers release before they acquire."""
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
OOM_RECHECK_S = 1.0
"""Delay of the second inspection of a killed container. The runtime learns that memory ran out apart from the end of
the process, and sends no event when it changes the reason to OOMKilled."""


def may_become_oom_killed(before: States, status: PodStatus | None) -> bool:
    """Return True if a container newly ended by SIGKILL and is not reported as OOMKilled."""
    return status is not None and any(
        item.state == EXITED and item.exit_code == KILLED and item.reason != OOM and before.get(item.id) != EXITED
        for item in status.containers
    )

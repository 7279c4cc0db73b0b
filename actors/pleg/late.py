"""What a runtime may still add to a container that has ended, without an event: that it ended for want of memory. Pure.

A runtime hears of the lack of memory and of the end of the process apart from each other.
"""

from actors.pleg.diff import EXITED, States
from protocols.messages.pleg import PodStatus

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

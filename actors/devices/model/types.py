"""Types of the device manager."""

import msgspec


class CallDeadlines(msgspec.Struct, frozen=True):
    """Deadlines in seconds."""

    dial: float = 10.0
    """From Register to an answer of the plugin's socket."""
    call: float = 30.0
    """Allocate, GetPreferredAllocation, PreStartContainer."""
    stop_grace: float = 300.0
    """From the end of a plugin's stream until its devices leave the capacity; the resource's key stays, with 0."""
    reconnect_wait: float = 10.0
    """From the manager's start until a plugin from before counts as gone, and pods that need it are rejected."""
    claiming: float = 30.0
    """From a start with a lost checkpoint until new pods are admitted, unless podworker lists its pods earlier."""
    claimed: float = 2.0
    """From podworker's list until new pods are admitted; running pods claim their devices meanwhile."""
    commit_retry: float = 1.0
    """Pause before a failed checkpoint write is repeated."""

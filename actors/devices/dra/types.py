"""Limits of dynamic resource allocation on the node."""

import msgspec


class DraLimits(msgspec.Struct, frozen=True):
    """Times in seconds."""

    call: float = 45.0
    """Deadline of NodePrepareResources and NodeUnprepareResources."""
    health: float = 30.0
    """Silence after which a device is Unknown, unless its driver sets another timeout."""
    reopen: float = 5.0
    """Pause before a health stream that ended is opened again on the same connection."""
    fresh: float = 15.0
    """A pod whose claims were requested within this time is not orphaned, whatever an older list of pods shows."""
    reconnect_wait: float = 5.0
    """Time after the manager's start until a driver that has not registered counts as missing. It is short: pods wait
    for it before their next try."""
    retry_first: float = 1.0
    retry_max: float = 60.0
    """Bounds of the backoff between tries to unprepare the claims of a deleted pod."""

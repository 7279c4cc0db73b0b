"""Spoken by `runtime`, the embedded container runtime, beside its CRI socket."""

import msgspec

OWNER = "runtime"

STOP_CONTAINERS = "stop_containers"
"""RPC StopContainers -> Empty: answered when all containers, then all sandboxes have ended. None starts afterwards."""


class StopContainers(msgspec.Struct, frozen=True):
    grace_s: float = 10.0
    """Seconds between the stop signal and SIGKILL; 0 kills at once."""


class Empty(msgspec.Struct, frozen=True):
    pass

"""Messages of `nodeplane calls`: the calls between the device manager and device plugins or DRA drivers."""

from typing import Any

import msgspec

CALLS = "calls"
"""RPC CallsRequest -> CallsReply at `devices`. It waits for a next record if asked to: nothing is published, so that a
plane whose calls nobody reads pays for the record alone."""

HIDDEN = "(hidden)"
"""Replaces the value of an environment variable unless a request has `show_secrets`."""

MAX_WAIT_S = 10.0
"""Longest time for which a request waits."""


class CallRecord(msgspec.Struct, frozen=True):
    """One call, or one message of a stream."""

    peer: str
    """Resource of the plugin or name of the driver; of a registration that failed, the name it used."""
    method: str
    """Name of the gRPC method."""
    began_ns: int
    """Unix time."""
    socket: str = ""
    number: int = 0
    """Grows with each record of one incarnation of the device manager."""
    seconds: float = 0.0
    """Duration; 0 for messages of streams."""
    deadline: float = 0.0
    """In seconds from the begin; 0 = none."""
    status: str = ""
    """gRPC code; empty = the call is in progress."""
    error: str = ""
    """gRPC message of the error."""
    incoming: bool = False
    """Made by the plugin or driver: Register, and messages of its streams."""
    subject: str = ""
    """NAMESPACE/POD CONTAINER the call was made for, or its claims' pod."""
    request: dict[str, Any] = {}
    """Fields of the message by their names in the .proto file; fields with default values are absent."""
    reply: dict[str, Any] = {}
    """As `request`; of a stream, the difference to its last message."""
    omitted: dict[str, int] = {}
    """Items or characters left out, by path, such as `request.container_requests.0.devices_ids`."""
    outcome: str = ""
    """The consequence in words."""
    times: int = 1
    """Equal messages in a row, of which this is the last."""


class CallsRequest(msgspec.Struct, frozen=True):
    """Ask the device manager for recorded calls after a position; waits for a first one, as a long poll."""

    peer: str = ""
    """Resource or driver; empty = all."""
    incarnation: int = 0
    """Epoch of the reply that `after` is from; another one than the current counts as after=0."""
    after: int = 0
    """Return records with greater numbers."""
    wait: float = 0.0
    """Seconds to wait for a first one, MAX_WAIT_S at most."""
    show_secrets: bool = False


class CallsReply(msgspec.Struct, frozen=True):
    """Recorded calls after the request's position, oldest first, and those in progress."""

    incarnation: int
    """Identifies the process: records are lost with it."""
    newest: int
    """The position for the next request."""
    more: bool = False
    """More records are there already."""
    records: tuple[CallRecord, ...] = ()
    pending: tuple[CallRecord, ...] = ()
    """Calls in progress, oldest first."""

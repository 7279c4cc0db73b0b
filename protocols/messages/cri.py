"""Messages of `cri`: runtime calls as RPC, container events and the runtime's state as streams."""

import msgspec

OWNER = "cri"

CONTAINER_EVENTS = "container-events"
"""Edge stream, value = ContainerEvent. The key is empty: events are passed on unread."""

RUNTIME_STATE = "runtime-state"
"""One item with key `runtime`, value = RuntimeState."""

CALL = "call"
"""RPC CriCall -> CriReply. gRPC errors of the runtime come back as the bus error with the same code name."""

CHAOS = "chaos"
"""RPC ChaosRuntime -> Empty: put a fault between the runtime's events and their followers."""

STALL, DROP, DUPLICATE, REORDER = "stall", "drop-events", "duplicate-events", "reorder-events"
DISCONNECT, CLOCK_JUMP, CLEAR = "disconnect", "clock-jump", "clear"
RUNTIME_FAULTS = (STALL, DROP, DUPLICATE, REORDER, DISCONNECT, CLOCK_JUMP, CLEAR)
MOST_SHIFT_S = 1e9
"""Largest clock-jump in seconds, about 30 years: timestamps in nanoseconds carry 64 bits."""


class Empty(msgspec.Struct, frozen=True):
    """Request or answer without content."""


class ChaosRuntime(msgspec.Struct, frozen=True):
    """The fault holds until another one or `clear`; `disconnect` happens once."""

    fault: str
    count: int = 0
    """drop-events: how many; 0 = all."""
    seconds: float = 0.0
    """clock-jump: by how much the runtime's stamps are moved."""


class ContainerEvent(msgspec.Struct, frozen=True):
    """One CRI ContainerEventResponse as the runtime sent it."""

    payload: bytes
    """Serialized runtime.v1.ContainerEventResponse."""
    received_ns: int


class RuntimeHandler(msgspec.Struct, frozen=True):
    """Features of a runtime handler, as Status reports them."""

    name: str
    """Empty: the default handler."""
    recursive_read_only: bool = False
    user_namespaces: bool = False


class EventNumber(msgspec.Struct, frozen=True):
    """Position of a container event in one run of the runtime; events of two runs do not compare."""

    incarnation: int
    """Random number of one run of the runtime process."""
    number: int
    """1 for its first event; the next event has the next number."""


class RuntimeState(msgspec.Struct, frozen=True):
    """Connection to the container runtime, and what the runtime reports of itself."""

    connected: bool = False
    """The Status call answers and RuntimeReady is true."""
    streaming: bool = False
    """GetContainerEvents is open and has answered."""
    events_supported: bool = True
    """False once the runtime answered GetContainerEvents with UNIMPLEMENTED."""
    failures: int = 0
    """Consecutive failures of the event stream."""
    name: str = ""
    version: str = ""
    message: str = ""
    """Why it is not connected or not streaming; empty when all is well."""
    network: str = ""
    """Why pods get no network of their own, as the runtime says; empty: they do."""
    handlers: tuple[RuntimeHandler, ...] = ()
    """In the order of the runtime; empty: it reports none."""
    strict_groups: bool = False
    """The runtime follows the SupplementalGroupsPolicy of pods, so that Strict adds no groups of the image."""
    newest_event: EventNumber | None = None
    """Number of its newest event at the last Status call; None: it does not number its events."""


ANSWERED = "answered"
"""Key in the details of an error that the runtime itself returned; without it, the runtime did not answer."""


class CriCall(msgspec.Struct, frozen=True):
    """A CRI request to pass on to the runtime."""

    operation: str
    """Method name of runtime.v1.RuntimeService or ImageService, e.g. `RunPodSandbox`."""
    request: bytes
    """Serialized request message of that method."""


class CriReply(msgspec.Struct, frozen=True):
    """Serialized response of the runtime; an error of the runtime is the RPC's error instead."""

    response: bytes

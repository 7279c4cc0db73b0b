"""The vocabulary of probes."""

from enum import Enum

import msgspec

from actors.podworker.types import Object

LIVENESS, READINESS, STARTUP = "Liveness", "Readiness", "Startup"
FIELDS = {LIVENESS: "livenessProbe", READINESS: "readinessProbe", STARTUP: "startupProbe"}


class Outcome(Enum):
    """Of one attempt."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"
    """The question could not be put: says nothing of the container."""


class Attempt(msgspec.Struct, frozen=True):
    outcome: Outcome
    output: str = ""
    warning: bool = False
    """A success that deserves a word: redirected to another host."""


class Probe(msgspec.Struct, frozen=True):
    kind: str
    handler: Object
    """The part with exec, httpGet, tcpSocket or grpc."""
    initial_delay: float = 0
    period: float = 10
    timeout: float = 1
    success: int = 1
    failure: int = 3
    grace: int = 0
    """Seconds to end after a failure; 0 = the pod's."""


class Target(msgspec.Struct, frozen=True):
    """What is asked."""

    container_id: str
    ip: str
    ports: dict[str, int] = {}
    """Named ports of the container."""


class Verdict(msgspec.Struct, frozen=True):
    """What the probes of one running container say together."""

    started: bool = True
    ready: bool = True
    fault: str = ""
    """Why the container is to be killed; empty: it is not."""
    grace: int = 0

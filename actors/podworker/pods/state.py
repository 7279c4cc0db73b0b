"""What a worker remembers of its pod; nothing of it is durable."""

from dataclasses import dataclass, field

from actors.podworker.restarts.pauses import Pauses
from actors.podworker.sizes.sizes import Sizes
from actors.podworker.types import BackoffEntry, Object, PodSpec, Stage, StartFailure, Waiting
from protocols.messages.devices import ContainerGrant
from protocols.messages.health import PodResourceStatus
from protocols.messages.held import PodHeld


@dataclass
class PodState:
    spec: PodSpec
    stage: Stage = Stage.SYNCING
    gone: bool = False
    """The API no longer has the pod."""
    shown: Object = field(default_factory=dict)
    """The status published last."""
    problems: dict[str, Waiting] = field(default_factory=dict)
    """Why a container could not be created, until it can."""
    failed_starts: dict[str, StartFailure] = field(default_factory=dict)
    """By container id."""
    pauses: Pauses = field(default_factory=Pauses)
    """Before sandboxes and containers that could not be made are tried again."""
    book: dict[str, BackoffEntry] | None = None
    """Crash back-off by container name; None until the first look at the pod's history."""
    grants: dict[str, ContainerGrant] | None = None
    """What admission gave; None before it."""
    claims: dict[str, tuple[str, ...]] | None = None
    """CDI names of its claims' devices by container; None before they are known to be prepared."""
    rejected: Waiting | None = None
    doomed: Waiting | None = None
    """Why it is ended as Failed although it ran: it was active for too long."""
    released: bool = False
    deleted: bool = False
    """The final API delete went through."""
    resources: PodResourceStatus | None = None
    held: PodHeld = field(default_factory=PodHeld)
    """What it had when it began to end."""
    sizes: Sizes = field(default_factory=Sizes)
    announced: set[str] = field(default_factory=set)
    """Ids of ended containers whose back-off was told as an event."""

"""Messages of `pleg`: lifecycle events of pods in the runtime, and each pod's runtime status."""

import msgspec

OWNER = "pleg"

POD_LIFECYCLE = "pod-lifecycle"
"""Edge stream, key = pod uid, value = PodLifecycleEvent."""

POD_STATUS = "pod-status"
"""State stream, key = pod uid, value = PodStatus; deleted when the runtime holds nothing of the pod."""

PLEG_STATE = "pleg-state"
"""One item with key `pleg`, value = PlegState; published only on change."""

STEP_NS = 10**7
"""Steps of the clock that are ignored: times of statuses are those of the wall clock.

After a step back, and until the clock has caught up, what is known counts as newer than it is.
"""
GET_NEWER_THAN = "get_newer_than"
"""RPC GetNewerThan -> PodStatus: waits until the cache knows the pod later than `min_ns`."""

RELIST_POD = "relist_pod"
"""RPC RelistPod -> Empty: ask for a relist of one pod soon."""


class Empty(msgspec.Struct, frozen=True):
    """Request or answer without content."""


class PodLifecycleEvent(msgspec.Struct, frozen=True):
    """A change of one container or sandbox that pleg found in the runtime."""

    uid: str
    type: str
    """ContainerStarted, ContainerDied, ContainerRemoved or PodSync (upstream's names)."""
    id: str
    """Container or sandbox id."""


class SandboxStatus(msgspec.Struct, frozen=True):
    """Status of one sandbox, as the runtime reports it."""

    id: str
    ready: bool
    attempt: int
    created_ns: int
    ip: str = ""
    host_network: bool = False
    second_ip: str = ""
    """Address of the other family, of a pod with both."""

    @property
    def ips(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.ip, self.second_ip)))


class ContainerStatus(msgspec.Struct, frozen=True):
    """Status of one container, as the runtime reports it, with what podworker stored in its annotations."""

    id: str
    sandbox_id: str
    name: str
    attempt: int
    state: str
    """created, running, exited or unknown."""
    created_ns: int
    started_ns: int = 0
    finished_ns: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    image: str = ""
    image_id: str = ""
    restart_count: int = 0
    """From annotation io.kubernetes.container.restartCount."""
    spec_hash: str = ""
    """From annotation io.kubernetes.container.hash."""
    log_path: str = ""
    devices: str = ""
    """From annotation nodeplane.io/devices: what the container was started with."""
    user: tuple[int, ...] = ()
    """User, group and further groups of its first process; empty = the runtime does not report them."""
    stop_signal: str = ""
    """Name of the stop signal; empty = the runtime's default, or not reported."""


class PodStatus(msgspec.Struct, frozen=True):
    """One pod as the runtime knows it. No sandbox and no container: the runtime holds nothing of it."""

    uid: str
    name: str = ""
    namespace: str = ""
    ips: tuple[str, ...] = ()
    sandboxes: tuple[SandboxStatus, ...] = ()
    """Newest first."""
    containers: tuple[ContainerStatus, ...] = ()
    """Newest first, all attempts the runtime still has."""
    timestamp_ns: int = 0
    """Our clock, ns: everything that was so by then is in here. Only an inspection moves it, an event never does, so
    that a runtime's own stamps cannot release one who waits for what he did himself."""
    error: str = ""
    """Why the last inspection failed; the rest is then the last known."""


class GetNewerThan(msgspec.Struct, frozen=True):
    """Wait for a status of the pod that was read from the runtime after `min_ns` (ns since the epoch)."""

    uid: str
    min_ns: int


class RelistPod(msgspec.Struct, frozen=True):
    """Ask for an inspection of one pod soon."""

    uid: str


EVENTED = "evented"


class PlegState(msgspec.Struct, frozen=True):
    """State of pleg, for the node's Ready condition and for users."""

    mode: str = "generic"
    """evented, hint or generic: what is in use now."""
    why: str = ""
    healthy: bool = False
    last_relist_ns: int = 0
    """Start of the last good full relist when this was published, ns since the epoch; 0 = none yet."""
    message: str = ""
    """Why it is not healthy."""

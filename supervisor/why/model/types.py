"""Evidence about a target, and the conclusion."""

from collections.abc import Mapping

import msgspec

from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.messages.calls import CallRecord
from protocols.messages.devices import DeviceHealth, PluginView
from protocols.messages.supervisor import ActorStatus
from protocols.trace import Row
from supervisor.client.devices import DeviceRow
from supervisor.client.drivers import DriverRow
from supervisor.dra.explain import Explanation
from supervisor.dra.why import PodAnswer


class Finding(msgspec.Struct, frozen=True):
    """The conclusion of a rule."""

    state: str
    reason: str
    """One sentence."""
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


class Diagnosis(msgspec.Struct, frozen=True):
    """Texts come from pods, plugins and drivers, too: make them printable before a terminal shows them."""

    target: str
    """`pod/NAMESPACE/NAME`, `device/RESOURCE/ID`, `claim/NAMESPACE/NAME`, `node/NAME`, `plugin/RESOURCE`."""
    state: str
    reason: str
    """One sentence."""
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


class ApiEvent(msgspec.Struct, frozen=True):
    """An event of the API."""

    at: float
    kind: str
    """Normal or Warning."""
    reason: str
    message: str
    count: int = 1
    container: str = ""
    """Name of the container it is about; "" for the pod, or if it does not say."""


class PluginEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of the node, and its plugins."""

    resource: str
    now: float
    known: bool = False
    """The node has the resource: a plugin serves it, or did."""
    connected: bool = False
    capacity: int = 0
    healthy: int = 0
    plugins: tuple[PluginView, ...] = ()
    """The one that serves comes first."""
    calls: tuple[CallRecord, ...] = ()
    """Calls for this resource, oldest first; calls in progress included."""
    socket_since: float = 0.0
    """Time at which kubelet.sock was created; 0 = there is none."""
    unhealthy: tuple[DeviceRow, ...] = ()
    manager_since: float = 0.0
    """Time at which the device manager started; 0 = not known."""
    manager_restart: str = ""
    """Why it was restarted last; empty = it was not."""


class DriverEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """A DRA driver of a node."""

    name: str
    now: float
    row: DriverRow | None = None
    calls: tuple[CallRecord, ...] = ()
    socket_since: float = 0.0
    slices: int = 0
    """ResourceSlices that it has published."""
    elsewhere: tuple[str, ...] = ()
    """Nodes of these slices that run elsewhere: whether it is registered there is not known."""


class DeviceEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """A device of a plugin (`row`, `plugin`) or of a DRA driver (`explanation`, `driver`)."""

    name: str
    """RESOURCE/ID or DRIVER/POOL/DEVICE."""
    now: float
    row: DeviceRow | None = None
    plugin: PluginEvidence | None = None
    health: DeviceHealth | None = None
    explanation: Explanation | None = None
    taints: tuple[str, ...] = ()
    """Its taints as patched, each with its source."""
    driver: DriverEvidence | None = None
    elsewhere: str = ""
    """Name of its node if that runs elsewhere, where its health and its driver are known."""
    holders: tuple[str, ...] = ()
    """Claims that are allocated a DRA device, each with its pods."""


class ClaimEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence about a ResourceClaim, gathered at `now` (Unix time)."""

    key: str
    now: float
    claim: views.ResourceClaim
    events: tuple[ApiEvent, ...] = ()
    users: tuple[Object, ...] = ()
    """Pods that name the claim and have not ended."""
    scheduling: PodAnswer | None = None
    """Why the first of them finds no node."""
    health: Mapping[str, DeviceHealth] = {}
    """By DRIVER/POOL/DEVICE."""


class NodeEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence about a node, gathered at `now` (Unix time)."""

    name: str
    now: float
    node: views.Node
    events: tuple[ApiEvent, ...] = ()
    actors: tuple[ActorStatus, ...] = ()
    """Processes of the node, if it is one of this plane that runs on this machine."""
    running: bool = True
    """False if the supervisor of such a node does not run."""


class PodEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence about a pod, gathered at `now` (Unix time); each rule reads its part."""

    key: str
    """NAMESPACE/NAME"""
    now: float
    pod: views.Pod | None = None
    """None if the API has it no more."""
    events: tuple[ApiEvent, ...] = ()
    """Oldest first."""
    steps: tuple[Row, ...] = ()
    """The trace."""
    logs: Mapping[str, tuple[str, ...]] = {}
    """Last lines by container, of the run that ended last."""
    calls: tuple[CallRecord, ...] = ()
    """Calls to plugins and drivers for this pod, oldest first."""
    plugins: tuple[PluginEvidence, ...] = ()
    """Plugins of the resources that the pod requests and no driver backs."""
    devices: tuple[DeviceRow, ...] = ()
    """Devices of plugins that the pod holds."""
    scheduling: PodAnswer | None = None
    """Why the scheduler finds no node, as `nodeplane devices --why`; None for a pod that has one."""
    node: views.Node | None = None
    unread: tuple[str, ...] = ()
    """Sources that could not be read, with the reason."""
    blind: str = ""
    """Why nothing is known of the node's steps and calls; empty if they are."""

"""What is known of a target, and the conclusion."""

from collections.abc import Mapping

import msgspec

from protocols.kube.meta import Object
from protocols.messages.calls import CallRecord
from protocols.messages.devices import PluginView
from protocols.trace import Row
from supervisor.client.devices import DeviceRow
from supervisor.dra.why import Answer


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


class Event(msgspec.Struct, frozen=True):
    """An event of the API."""

    at: float
    kind: str
    """Normal or Warning."""
    reason: str
    message: str
    count: int = 1


class PluginEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """A resource of the node, and its plugins."""

    resource: str
    now: float
    connected: bool = False
    capacity: int = 0
    healthy: int = 0
    plugins: tuple[PluginView, ...] = ()
    """The one that serves comes first."""
    calls: tuple[CallRecord, ...] = ()
    """Of this resource, oldest first; calls in progress included."""
    socket_since: float = 0.0
    """When kubelet.sock was created; 0 = there is none."""
    unhealthy: tuple[DeviceRow, ...] = ()


class PodEvidence(msgspec.Struct, frozen=True, kw_only=True):
    key: str
    """NAMESPACE/NAME"""
    now: float
    pod: Object | None = None
    """None if the API has it no more."""
    events: tuple[Event, ...] = ()
    """Oldest first."""
    steps: tuple[Row, ...] = ()
    """The trace."""
    logs: Mapping[str, tuple[str, ...]] = {}
    """Last lines by container, of the run that ended last."""
    calls: tuple[CallRecord, ...] = ()
    """Calls to plugins and drivers for this pod, oldest first."""
    plugins: tuple[PluginEvidence, ...] = ()
    """Those of the resources that the pod requests and no driver backs."""
    devices: tuple[DeviceRow, ...] = ()
    """Devices of plugins that the pod holds."""
    scheduling: Answer | None = None
    """Why the scheduler finds no node, as `nodeplane devices --why`; None for a pod that has one."""
    node: Object | None = None
    unread: tuple[str, ...] = ()
    """Sources that could not be read, with the reason."""

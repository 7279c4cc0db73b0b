"""Sources of evidence: a running plane (`live`), or a recording (`replay`)."""

import string
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

import msgspec

from protocols.dra.gates import Gates
from protocols.errors import NodeplaneError
from protocols.kinds import views
from protocols.kinds.table import Resource
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object, labels_of, name_of
from protocols.kubeclient.client import Getter, find
from protocols.messages.calls import CallRecord
from protocols.messages.devices import DeviceHealth, PluginView, ResourceInventory
from protocols.messages.fleet import FLEET
from protocols.messages.supervisor import PlaneStatus
from supervisor.base.errors import UsageError, did_you_mean
from supervisor.client.devices import DeviceRow
from supervisor.client.drivers import DriversView
from supervisor.trace.collect import PodTrace

T = TypeVar("T")
NAME = frozenset(string.ascii_letters + string.digits + "-.:_")
"""Characters of names of objects."""
MOST = 500
"""Objects of a list that are read for names."""
LOG_LINES = 5
"""Lines at the end of a container's log."""
LOG_BYTES = LOG_LINES * (16 << 10)
"""Limit for them: runtimes split longer lines, and of longer ends an API would leave out the last lines."""


class DeviceManager(msgspec.Struct, frozen=True):
    """State of one device manager."""

    calls: tuple[CallRecord, ...] = ()
    inventory: dict[str, ResourceInventory] = {}
    plugins: tuple[PluginView, ...] = ()
    health: dict[str, DeviceHealth] = {}
    """By `RESOURCE ID`, and `DRIVER/POOL/DEVICE`."""
    rows: tuple[DeviceRow, ...] = ()
    drivers: DriversView = DriversView((), ())
    socket_since: float = 0.0
    """Time at which kubelet.sock was created; 0 = there is none."""
    kubelet: bool = False
    """A kubelet's, which reports what pods hold, and neither plugins, drivers nor calls."""

    def resources(self) -> list[str]:
        """Return the resources that plugins have, had, or tried to register."""
        drivers = {row.driver.name for row in self.drivers.drivers}
        peers = {call.peer for call in self.calls if call.peer not in drivers}
        return sorted({*self.inventory, *(view.resource for view in self.plugins), *peers} - {""})


class Reading(Getter, Protocol):
    """The reads of an API. Each raises ApiError, ApiAway."""

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        query: Mapping[str, str] | None = None,
        field_selector: str = "",
    ) -> Object: ...


class Sources(Protocol):
    """Evidence of a plane, with the device manager and the processes of one of its nodes."""

    @property
    def client(self) -> Reading: ...

    @property
    def gates(self) -> Gates: ...

    @property
    def node_name(self) -> str:
        """Name of the node whose device manager and processes these are."""
        ...

    def now(self) -> float:
        """Return the Unix time that the evidence is of."""
        ...

    def other_nodes(self) -> list[str]:
        """Return the names of the plane's other nodes on this machine."""
        ...

    def node(self, name: str) -> AbstractAsyncContextManager["Sources"]:
        """Return sources of another node; these if there is none of this name."""
        ...

    async def device_manager(self) -> DeviceManager:
        """Raises NotRunning, SupervisorError."""
        ...

    async def status(self) -> PlaneStatus:
        """Raises NotRunning, SupervisorError."""
        ...

    async def trace(self, namespace: str, name: str) -> PodTrace:
        """Return the steps of a pod, by name or uid. Raises NotRunning, UsageError."""
        ...

    async def log(self, pod: views.Pod, container: str, previous: bool) -> str:
        """Return the end of a container's log, LOG_LINES lines of at most LOG_BYTES. Raises ApiError, ApiAway."""
        ...


def simulated(node: views.Node | None) -> str:
    """Return that a node is one of a fleet, and where more is known of it; empty for others."""
    fleet = labels_of(node or {}).get(FLEET, "")
    return f"is simulated; see `nodeplane fleet status --name {fleet}`" if fleet else ""


class SourceReader:
    """Reads sources of evidence; one that fails does not keep the others from being read."""

    def __init__(self) -> None:
        self.unread: list[str] = []

    async def read(self, name: str, awaitable: Awaitable[T], default: T) -> T:
        try:
            return await awaitable
        except (NodeplaneError, OSError) as error:
            self.unread.append(f"{name} could not be read: {error}")
            return default


async def objects_of(sources: Sources, resource: Resource, namespace: str = "", selector: str = "") -> list[Any]:
    """Return the objects; to the user of a node those of this node alone. Raises ApiError, ApiAway."""
    try:
        object_list = await sources.client.list(resource, namespace, field_selector=selector)
    except ApiError as error:
        if error.code != 403:
            raise
        own = ",".join(filter(None, (selector, f"spec.nodeName={sources.node_name}")))
        object_list = await sources.client.list(resource, namespace, field_selector=own)
    return list(object_list.get("items") or ())


def here(sources: Sources) -> tuple[str, ...]:
    """Return the names of the nodes whose processes can be asked."""
    return (sources.node_name, *sources.other_nodes())


async def get(client: Reading, resource: Resource, name: str, namespace: str = "") -> Any:
    """Return an object; None if there is none. Raises ApiError, ApiAway."""
    if not set(name + namespace) <= NAME:
        return None  # no object is called so, and another path could be meant
    return await find(client, resource, name, namespace)


async def names(client: Reading, resource: Resource, namespace: str = "") -> list[str]:
    """Return the first names of a kind, none to a user who may not list it. Raises ApiError, ApiAway."""
    try:
        object_list = await client.list(resource, namespace, query={"limit": str(MOST)})
    except ApiError as error:
        if error.code == 403:
            return []
        raise
    return [name_of(item) for item in object_list.get("items") or ()]


class TargetUnknown(UsageError):
    """Raised for a target that nobody knows; `where` in a running plane."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"{what}{where}")
        self.what = what


def unknown(what: str, name: str, known: Iterable[str], lists: str) -> TargetUnknown:
    """Return the error for a target that nobody knows, with the nearest name."""
    hint = did_you_mean(name.rpartition("/")[2], {known_name.rpartition("/")[2]: known_name for known_name in known})
    return TargetUnknown(f"no {what} is called {name!r}; {hint}", f"`{lists}` lists them")

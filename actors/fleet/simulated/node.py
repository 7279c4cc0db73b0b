"""One simulated node: its Node object, its addresses, its room for pods and its devices. Pure."""

from collections.abc import Mapping
from ipaddress import IPv4Address

from actors.fleet.profiles.expand import DriverTemplate, NodeTemplate
from actors.fleet.simulated.containers import RUNTIME
from actors.fleet.simulated.devices import Devices, Driver, published
from protocols.kinds import views
from protocols.kinds.table import NODES, RESOURCESLICES
from protocols.kube.meta import Object, labels_of, uid_of
from protocols.kube.resource_names import is_extended
from protocols.lifecycle.errors import AdmissionRejected, NotEnoughResource
from protocols.lifecycle.node.room import NodeRoom
from protocols.lifecycle.node.status import (
    Amount,
    MachineInfo,
    NodeStatusInputs,
    advertised_resources,
    new_node,
    node_status,
)
from protocols.lifecycle.pods.admission import REJECTED, forbidden_sysctl
from protocols.lifecycle.pods.resources import Amounts, milli
from protocols.lifecycle.pods.types import PodSpec, Waiting
from protocols.lifecycle.status.device_health import held_in
from protocols.messages.health import PodResourceStatus
from protocols.node.sysctls import allowlist

POD_NETWORK, NODE_NETWORK = IPv4Address("10.0.0.0"), IPv4Address("172.16.0.0")
AMOUNTS: tuple[Amount, ...] = ("capacity", "allocatable")
SYSCTLS = allowlist("6.12")
"""Sysctls that pods may set: upstream's safe ones, on a kernel that has them all."""
POD_ADDRESSES = 254
"""Addresses of pods on one node; they are given in turn."""


class Node:
    """State of one node, but for its pods."""

    def __init__(self, template: NodeTemplate, number: int, everywhere: frozenset[str] = frozenset()) -> None:
        """`number`: of the node in its fleet, from which its addresses follow.

        `everywhere`: drivers of pools that belong to no single node.
        """
        self._everywhere = everywhere
        self.template = template
        self.name = template.name
        self.number = number
        self.devices = Devices(template)
        self.room = NodeRoom()
        self.object: views.Node = {}
        """The Node object as the API showed it last, as far as it is read here; empty before it is registered."""
        self._plugged = {plugin.resource for plugin in template.plugins}
        self._advertised = frozenset[str]()
        """Extended resources that other clients added to its capacity since it is known here."""
        self.silent = False
        """It renews no lease, reports nothing and starts nothing, as a node that lost its network."""
        self.pods: set[str] = set()
        """Uids of the pods that are bound to it."""
        self.preempted: set[str] = set()
        """Uids of pods that are to end for a critical one."""
        self.health: dict[str, PodResourceStatus | None] = {}
        """Device health that pods have yet to take, by uid; None for pods that hold nothing any more."""
        self._given = 0
        self._addresses: dict[str, str] = {}
        """Addresses of pods, by uid."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of its Node object; those of the profile before it is registered."""
        return labels_of(self.object) if self.object else self.template.labels

    @property
    def address(self) -> str:
        return str(NODE_NETWORK + self.number)

    def address_for(self, uid: str) -> str:
        """Return an address for a pod that no other pod of the node has, as long as there are some."""
        self._addresses.pop(uid, None)
        taken = set(self._addresses.values())
        for _ in range(POD_ADDRESSES):
            self._given = self._given % POD_ADDRESSES + 1
            address = str(POD_NETWORK + 256 * self.number + self._given)
            if address not in taken:
                break
        self._addresses[uid] = address
        return address

    def new_object(self, now: str, labels: Mapping[str, str]) -> views.Node:
        """Return the Node object with which it registers. `labels`: besides those of its profile."""
        template = self.template
        node = new_node(self._inputs(), now)
        node["metadata"]["labels"] = {**(node["metadata"].get("labels") or {}), **template.labels, **labels}
        node["metadata"]["annotations"] = dict(template.annotations)
        if template.taints:
            node["spec"] = {"taints": list(template.taints)}
        return {**node, "status": self._profiled(node["status"])}

    def shown(self, found: views.Node) -> bool:
        """Take the Node object that the API shows now, reduced. Return True if another client changed its resources."""
        if self.object:
            own = self._plugged | self.template.capacity.keys()
            self._advertised |= advertised_resources(self.object, found) - own
        self.object = found
        capacity, allocatable = ((found.get("status") or {}).get(kind) or {} for kind in AMOUNTS)
        return any(capacity.get(name) != allocatable.get(name) for name in self._advertised)

    def status(self, before: views.NodeStatus, now: str) -> views.NodeStatus:
        """Return the status that the Node object is to have now. `before`: the one that it has."""
        return self._profiled(node_status(self._inputs(), before, now))

    def slices(self, labels: Mapping[str, str]) -> list[Object]:
        """Return the ResourceSlices of its connected drivers, which it owns."""
        owner = {**NODES.type_meta, "name": self.name, "uid": uid_of(self.object), "controller": True}
        return [
            {
                **RESOURCESLICES.type_meta,
                "metadata": {
                    "name": self.slice_name(driver, number),
                    "labels": dict(labels),
                    "ownerReferences": [owner],
                },
                "spec": published(self.devices.drivers[driver.driver], spec),
            }
            for driver in self.template.drivers
            if self.devices.drivers[driver.driver].connected
            for number, spec in enumerate(driver.slices)
        ]

    def gone_drivers(self) -> list[tuple[Driver, list[str]]]:
        """Return the drivers that are gone, each with the names of its slices."""
        return [
            (driver_state, [self.slice_name(driver, number) for number in range(len(driver.slices))])
            for driver in self.template.drivers
            if not (driver_state := self.devices.drivers[driver.driver]).connected
        ]

    def slice_name(self, driver: DriverTemplate, number: int) -> str:
        return f"{self.name}-{driver.driver}-{number}"

    def _profiled(self, status: views.NodeStatus) -> views.NodeStatus:
        """Return the status with the quantities of the profile instead of those of a machine."""
        capacity = {**status["capacity"], **self.template.capacity}
        return {**status, "capacity": capacity, "allocatable": {**status["allocatable"], **self.template.allocatable}}

    def _inputs(self) -> NodeStatusInputs:
        machine = MachineInfo(
            address=self.address,
            cpus=milli(self.template.capacity.get("cpu")) // 1000,
            memory_kib=0,
            storage_kib=0,
            architecture="amd64",
            kernel="simulated",
            os_image="nodeplane fleet",
            machine_id=self.name,
            boot_id=self.name,
            local=False,
        )
        return NodeStatusInputs(
            self.name,
            machine,
            ready=True,
            runtime=f"{RUNTIME}://1.0.0",
            inventory=self.devices.inventory(),
            advertised=self._advertised,
        )

    def admit(self, spec: PodSpec) -> Waiting | None:
        """Count the pod and give it its devices; return why the node rejects it. Raises RoomTaken."""
        if (forbidden := forbidden_sysctl(spec, SYSCTLS)) is not None:
            return forbidden
        verdict = self.room.admit(spec, self.object, self._unplugged())
        self.preempted.update(verdict.preempt)
        if (rejected := self.room.settle(spec, verdict)) is not None:
            return rejected
        try:
            self.devices.reserve(spec)
        except (AdmissionRejected, NotEnoughResource) as error:
            self.room.discount(spec.uid)
            return Waiting(error.details["reason"], f"{REJECTED}{error}")
        return None

    def _unplugged(self) -> set[str]:
        """Return the extended resources of the Node object that no device plugin of the profile has."""
        allocatable = (self.object.get("status") or {}).get("allocatable") or {}
        return {name for name in allocatable if is_extended(name)} - self._plugged

    def take_back(self, spec: PodSpec, shown: views.PodStatus, sizes: Mapping[str, Amounts]) -> None:
        """Count a pod from before the start of this process, with the devices and the address that its status shows.

        `sizes`: what is allocated to its containers.
        """
        self.room.count(spec, sizes)
        if address := shown.get("podIP"):
            self._addresses[spec.uid] = address
        self.devices.restore(spec, held_in(shown))

    def refresh(self, now: float) -> None:
        """Collect in `health` what pods are to show anew. `now`: seconds."""
        self.health.update(self.devices.refresh(now))

    def has_driver(self, name: str) -> bool:
        """Return True if a DRA driver can prepare a claim here now."""
        driver = self.devices.drivers.get(name)
        return name in self._everywhere if driver is None else driver.connected

    def release(self, uid: str) -> None:
        """Free what the pod has."""
        self._addresses.pop(uid, None)
        self.room.discount(uid)
        self.devices.release(uid)

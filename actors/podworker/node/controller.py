"""Assemble what reports this node to the API: Node object, lease, events, and ResourceSlices of drivers that left."""

import os

from actors.podworker.clients.api import address
from actors.podworker.clients.bus import Streams
from actors.podworker.clients.runtime import BusRuntime
from actors.podworker.model.dependencies import Address, NodeInfo
from actors.podworker.node.driver_slices import SliceCleaner, SliceCleanerOptions
from actors.podworker.node.images import NodeImages
from actors.podworker.node.machine import has_unified_cgroups, huge_page_sizes, read_machine
from actors.podworker.node.status_updater import NodeState, NodeStatusOptions, NodeStatusUpdater
from protocols.actor import Context
from protocols.bus import Op
from protocols.kinds.table import NODES
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder
from protocols.lifecycle.node.status import MachineInfo
from protocols.messages import devices
from protocols.node.sysctls import allowlist


class NodeController:
    """Owns the tasks that report the node. `info` is what pods are given of it, `updater` has the Node object."""

    def __init__(self, context: Context, client: ApiClient, events: EventRecorder, streams: Streams) -> None:
        settings = context.settings
        machine = read_machine(context.layout, settings.node_ip)
        self.info = _node_info(context, machine)
        self._context = context
        self._name = settings.node_name
        self._events = events
        self._streams = streams
        self._port = 0
        self.updater = NodeStatusUpdater(
            NodeStatusOptions(
                name=self._name,
                machine=machine,
                client=client,
                state=self._state,
                on_ready=self._on_ready,
                on_trouble=self._on_trouble,
                record=self.event,
                max_pods=settings.max_pods,
            )
        )
        self._images = NodeImages(BusRuntime(context.bus).images, self.updater.wake)
        self._slices = SliceCleaner(
            SliceCleanerOptions(node=self._name, client=client, connected=streams.connected_drivers)
        )
        self._subscribe()

    def start(self, port: int) -> None:
        """Report the node until the process ends. `port`: of the node endpoint, 0 if it is not served."""
        self._port = port
        spawn = self._context.spawn
        spawn(self._slices.run(), "slices")
        spawn(self.updater.run(), "node")
        spawn(self.updater.keep_lease(), "lease")
        spawn(self._images.run(), "images")

    def event(self, kind: str, reason: str, message: str) -> None:
        about = {**NODES.type_meta, "metadata": {"name": self._name, "uid": self._name}}
        self._events.event(about, kind, reason, message)

    def _subscribe(self) -> None:
        streams, wake = self._streams, self.updater.wake
        streams.runtime_state.subscribe(self._on_change, wake)
        streams.pleg_state.subscribe(self._on_change, wake)
        streams.inventory.subscribe(self._on_change, wake)
        streams.placements.subscribe(self._on_change)
        streams.pod_status.subscribe(on_synced=wake)
        streams.notices.subscribe(self._on_notice)
        streams.dra_drivers.subscribe(self._on_drivers, self._slices.wake)

    def _on_change(self, *change: object) -> None:
        self.updater.wake()

    def _on_drivers(self, *change: object) -> None:
        self._slices.wake()

    def _on_notice(self, op: Op, key: str, new: devices.NodeNotice | None, old: devices.NodeNotice | None) -> None:
        if new is not None:
            self.event(new.kind, new.reason, new.message)

    def _state(self) -> NodeState:
        streams, runtime = self._streams, self._streams.runtime
        return NodeState(
            faults=self._faults(),
            overdue=any(not state.healthy and state.last_relist_ns for state in streams.pleg_state.items.values()),
            runtime=f"{runtime.name}://{runtime.version}" if runtime.name else "",
            inventory=streams.inventory.items if streams.inventory.was_synced else None,
            port=self._port,
            placement=streams.placement(),
            handlers=runtime.handlers if runtime.name else None,
            strict_groups=runtime.strict_groups if runtime.name else None,
            images=self._images.known,
        )

    def _faults(self) -> tuple[str, ...]:
        streams, faults = self._streams, []
        if not (streams.runtime_state.synced and streams.runtime.connected):
            faults.append(f"container runtime is down: {streams.runtime.message or 'cri does not report'}")
        if not streams.pod_status.synced:
            faults.append("PLEG is not healthy: pleg does not report")
        if streams.placement() is None and self._context.settings.alignment.kept:
            faults.append("device manager does not report: reserved resources are not known yet")
        states = streams.pleg_state.items.values()
        faults += [f"PLEG is not healthy: {state.message}" for state in states if not state.healthy]
        return tuple(faults)

    def _on_ready(self) -> None:
        self._context.ready(f"node {self._name} is Ready")

    def _on_trouble(self, text: str) -> None:
        self._context.note(text or f"node {self._name} is reported again")


def _node_info(context: Context, machine: MachineInfo) -> NodeInfo:
    settings, layout = context.settings, context.layout
    return NodeInfo(
        node_name=settings.node_name,
        root=layout.root,
        logs=layout.pod_logs,
        host_ip=machine.address,
        embedded=settings.runtime_embedded,
        cpus=machine.cpus,
        memory=machine.memory_kib * 1024,
        storage=machine.storage_kib * 1024,
        api=address(settings.api_url) if settings.joined else Address(settings.advertise_address, settings.port),
        root_user=os.geteuid() == 0,
        sysctls=allowlist(machine.kernel, settings.allowed_unsafe_sysctls),
        page_sizes=() if settings.runtime_embedded else huge_page_sizes(),
        oom_group=not settings.runtime_embedded and has_unified_cgroups(),
    )

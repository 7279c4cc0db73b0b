"""podworker: makes this node's pods run, and says so: the only writer of pod status, of the node object and its lease.

Why a process: what decides about containers must not share its fate with the runtime's connection or with devices.
Owns nothing durable: desired state comes from the API, actual state from pleg, device health from health.
On kill -9: statuses lag until the next life; it acts only on what pleg confirms, so nothing is created twice.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator

from actors.podworker.clients.api import ApiObjects, ApiPods, ApiRecorder, KnownServices, address
from actors.podworker.clients.bus import BusDevices, BusPleg, HealthLink, Watched
from actors.podworker.clients.runtime import BusRuntime
from actors.podworker.endpoint.routes import NodeView, node_endpoint
from actors.podworker.logs.rotation import LogRotator, RotationOptions
from actors.podworker.model.dependencies import Site, World
from actors.podworker.model.runtime_status import RUNNING
from actors.podworker.model.types import Object, PodSpec
from actors.podworker.node.agent import NodeAgent, NodeAgentOptions, NodeState
from actors.podworker.node.driver_slices import DriverSlices
from actors.podworker.node.machine import read_machine
from actors.podworker.pods.cpusets import CpusetOptions, Cpusets, Held
from actors.podworker.pods.manager import ManagerOptions, PodManager
from actors.podworker.pods.node_pods import NodePods
from actors.podworker.pods.static_pods import StaticOptions, StaticPods
from actors.podworker.pods.status.status_manager import StatusManager
from actors.podworker.pods.workers.metrics import Meter
from protocols.actor import Context, run_actor
from protocols.bus import BusError, Op, Replica
from protocols.kube.client import ApiClient, ClientOptions
from protocols.kube.events import EventRecorder, RecorderOptions
from protocols.kube.informer import Informer, InformerOptions
from protocols.kube.resources import PODS
from protocols.messages import cri, devices, pleg

USER = "podworker"
RETRY_S = 0.1
WAIT_S = 60.0
RECONCILE_S = 60.0
"""Between two times devices are told which pods may hold any: what a lost pod left behind is given back then."""
NO_GRANT = devices.ContainerGrant({})


class PodWorkerActor:
    def __init__(self, context: Context) -> None:
        self._context = context
        settings = context.settings
        self._client = ApiClient(self._client_options())
        self._events = EventRecorder(self._client, RecorderOptions(component="kubelet", host=settings.node_name))
        self._machine = read_machine(context.layout, settings.node_ip)
        self._runtime = BusRuntime(context.bus)
        self._devices = BusDevices(context.bus, self._shared, lambda: self._cpusets.wake())
        self._connected = asyncio.Event()
        self._api = ApiPods(self._client)
        self._meter = Meter(context.registry)
        sent, shown = self._meter.status.observe, self._meter.health.observe
        self._statuses = StatusManager(
            self._api, lambda uid: self._manager.on_settled(uid), sent, shown, lambda *made: self._pods.on_status(*made)
        )
        self._health = HealthLink(
            context.settings.gate("ResourceHealthStatus"),
            lambda *change: self._manager.on_resources(*change),
            lambda: self._manager.wake_all(),
        )
        self._services = KnownServices(self._client)
        self._replicate()
        self._manager = PodManager(self._manager_options())
        self._pods = NodePods(self._manager)
        self._cpusets = Cpusets(
            CpusetOptions(self._runtime, ApiRecorder(self._events), self._held, lambda: self._placement)
        )
        self._node = NodeAgent(
            NodeAgentOptions(
                settings.node_name,
                self._machine,
                self._client,
                self._node_state,
                self._on_ready,
                self._on_trouble,
                self._node_event,
            )
        )
        selector = InformerOptions(field_selector=f"spec.nodeName={settings.node_name}")
        self._static = StaticPods(self._static_options())
        self._api.mirror = self._mirror
        self._informer = Informer(self._client, PODS, selector, self._static)
        self._slices = DriverSlices(context, self._client)
        self._rotator = self._log_rotator()
        self._endpoint = node_endpoint(context, self._node_view())

    async def start(self) -> None:
        self._context.layout.kubelet.joinpath("manifests").mkdir(mode=0o700, parents=True, exist_ok=True)
        await self._client.start()
        await self._endpoint.start()
        follow = self._context.bus.follow
        follow(owner=cri.OWNER, stream=cri.RUNTIME_STATE, sink=self._states, type=cri.RuntimeState)
        self._following = follow(owner=pleg.OWNER, stream=pleg.POD_STATUS, sink=self._seen, type=pleg.PodStatus)
        follow(owner=pleg.OWNER, stream=pleg.PLEG_STATE, sink=self._relists, type=pleg.PlegState)
        follow(owner=devices.OWNER, stream=devices.NOTICES, sink=self._notices, type=devices.Notice)
        follow(owner=devices.OWNER, stream=devices.PLACEMENT, sink=self._placements, type=devices.Placement)
        follow(owner=devices.OWNER, stream=devices.DEVICES, sink=self._inventory, type=devices.ResourceInventory)
        self._health.start(self._context.bus)
        self._slices.start()
        spawn = self._context.spawn
        spawn(self._events.run(), "events")
        spawn(self._informer.run(), "pods")
        spawn(self._services.run(), "services")
        spawn(self._node.run(), "node")
        spawn(self._node.keep_lease(), "lease")
        spawn(self._rotator.run(), "logs")
        spawn(self._manager.keep_resyncing(), "resync")
        spawn(self._cpusets.run(), "cpusets")
        spawn(self._begin(), "begin")

    async def stop(self) -> None:
        self._manager.close()
        self._statuses.close()
        await self._endpoint.close()
        await self._client.close()

    # parts

    def _node_view(self) -> NodeView:
        return NodeView(
            pods=self._informer.items,
            status=lambda uid: self._seen.items.get(uid),
            complete=lambda: self._informer.synced and self._seen.heard,
        )

    def _log_rotator(self) -> LogRotator:
        settings = self._context.settings
        options = RotationOptions(settings.container_log_max_size, settings.container_log_max_files)
        return LogRotator(options, self._runtime, self._running_logs)

    def _running_logs(self) -> Iterator[tuple[str, str]]:
        for status in list(self._seen.items.values()):
            yield from ((run.id, run.log_path) for run in status.containers if run.state == RUNNING)

    def _client_options(self) -> ClientOptions:
        layout = self._context.layout
        certificate, key = layout.client_cert(USER)
        server = self._context.settings.api_url
        return ClientOptions(server=server, ca=layout.ca_cert, cert=certificate, key=key, user_agent=USER)

    def _replicate(self) -> None:
        self._states = Watched[cri.RuntimeState](self._on_runtime, self._wake_node)
        self._seen = Watched[pleg.PodStatus](self._on_status, self._wake_node)
        self._placements = Watched[devices.Placement](lambda *_: self._on_placement(), lambda: None)
        self._relists = Watched[pleg.PlegState](lambda *_: self._wake_node(), self._wake_node)
        self._inventory = Watched[devices.ResourceInventory](lambda *_: self._wake_node(), self._on_devices)
        self._notices = Replica[devices.Notice](self._on_notice)

    def _manager_options(self) -> ManagerOptions:
        return ManagerOptions(
            world=self._world(),
            runtime_name=lambda: self._state.name or "nodeplane",
            resources=self._health.status,
            started_ns=time.time_ns(),
            meter=self._meter,
            allocatable=lambda: self._node.allocatable,
            on_finished=lambda uid: self._static.ended(uid),
        )

    def _static_options(self) -> StaticOptions:
        node = self._context.settings.node_name

        def on_fault(text: str) -> None:
            self._context.log.warning("%s", text)
            self._node_event("Warning", "InvalidManifest", text)

        directory = self._context.layout.kubelet / "manifests"
        return StaticOptions(directory, node, self._pods, self._api, lambda: self._node.uid, on_fault)

    def _mirror(self, spec: PodSpec) -> Object | None:
        return self._static.mirror(spec) if self._static.is_static(spec.uid) else None

    def _world(self) -> World:
        settings, layout = self._context.settings, self._context.layout
        return World(
            runtime=self._runtime,
            pleg=BusPleg(self._context.bus, self._seen),
            devices=self._devices,
            statuses=self._statuses,
            pods=self._api,
            objects=ApiObjects(self._client),
            recorder=ApiRecorder(self._events),
            health=self._health,
            site=Site(
                node_name=settings.node_name,
                root=layout.root,
                logs=layout.pod_logs,
                host_ip=self._machine.address,
                embedded=settings.runtime_embedded,
                cpus=self._machine.cpus,
                memory=self._machine.memory_kib * 1024,
                storage=self._machine.storage_kib * 1024,
                api=address(settings.api_url),
                root_user=os.geteuid() == 0,
            ),
            services=self._services.items,
            room=lambda uid: self._manager.room(uid),
            network=lambda: self._state.network,
        )

    # what others say

    @property
    def _state(self) -> cri.RuntimeState:
        return next(iter(self._states.items.values()), cri.RuntimeState(message="not heard of yet"))

    def _on_runtime(self, op: Op, key: str, new: cri.RuntimeState | None, old: cri.RuntimeState | None) -> None:
        if self._state.connected:
            self._connected.set()
            self._manager.retry_all()
            self._cpusets.wake()
        self._wake_node()

    def _on_devices(self) -> None:
        if self._inventory.synced:
            self._manager.retry_all()
        self._wake_node()

    def _on_notice(self, op: Op, key: str, new: devices.Notice | None, old: devices.Notice | None) -> None:
        if new is None:
            return
        self._node_event(new.kind, new.reason, new.message)
        if new.reason == devices.CHECKPOINT:
            self._manager.readmit()
            self._context.spawn(self._reconcile_again(), "reconcile")

    def _on_status(self, op: Op, uid: str, new: pleg.PodStatus | None, old: pleg.PodStatus | None) -> None:
        self._manager.on_status(op, uid, new, old)
        self._rotator.changed()
        self._cpusets.wake()

    # CPUs

    @property
    def _placement(self) -> devices.Placement | None:
        return self._placements.items.get(devices.NODE)

    def _shared(self) -> str:
        return self._placement.shared if self._placement is not None else ""

    def _on_placement(self) -> None:
        self._cpusets.wake()
        self._wake_node()

    def _held(self) -> Iterator[Held]:
        for uid, status in list(self._seen.items.items()):
            if (held := self._manager.held(uid)) is not None:
                spec, grants = held
                running = [run for run in status.containers if run.state == RUNNING]
                yield from (Held(run.id, run.name, spec, grants.get(run.name, NO_GRANT)) for run in running)

    def _wake_node(self) -> None:
        self._node.wake()

    # the node

    def _node_state(self) -> NodeState:
        state = self._state
        return NodeState(
            faults=self._faults(),
            runtime=f"{state.name}://{state.version}" if state.name else "",
            inventory=self._inventory.items if self._inventory.heard else None,
            port=self._endpoint.port,
            placement=self._placement,
        )

    def _faults(self) -> tuple[str, ...]:
        faults = []
        if not (self._states.synced and self._state.connected):
            faults.append(f"container runtime is down: {self._state.message or 'cri is silent'}")
        if not self._seen.synced:
            faults.append("PLEG is not healthy: pleg is silent")
        if self._placement is None and self._context.settings.alignment.kept:
            faults.append("device manager is silent: what is kept from pods is not known yet")
        faults += [
            f"PLEG is not healthy: {state.message}" for state in self._relists.items.values() if not state.healthy
        ]
        return tuple(faults)

    def _node_event(self, kind: str, reason: str, message: str) -> None:
        node = self._context.settings.node_name
        about = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "uid": node}}
        self._events.event(about, kind, reason, message)

    def _on_ready(self) -> None:
        self._context.ready(f"node {self._context.settings.node_name} is Ready")

    def _on_trouble(self, text: str) -> None:
        self._context.note(text or f"node {self._context.settings.node_name} is reported again")

    # the pods

    async def _begin(self) -> None:
        """Pods are touched once API, pleg and runtime have told what there is; devices learn who may hold some."""
        await self._connected.wait()
        while not (self._following.synced and self._informer.synced):
            with contextlib.suppress(BusError, TimeoutError):
                await self._following.wait_synced(WAIT_S)
                await self._informer.wait_synced(WAIT_S)
                await self._services.known()
        await self._static.load()
        self._pods.begin(self._context.bus)
        self._manager.begin(await self._running())
        self._context.spawn(self._static.watch(), "manifests")
        self._context.spawn(self._static.keep_mirrors(), "mirrors")
        while True:
            await self._reconcile()
            await asyncio.sleep(RECONCILE_S)

    async def _running(self) -> list[tuple[str, str, str]]:
        while True:
            try:
                return await self._runtime.live_pods()
            except BusError as error:
                self._context.note(f"waits for the runtime: {error}")
                await asyncio.sleep(RETRY_S)

    async def _reconcile_again(self) -> None:
        """Once there is a first time to come after."""
        if self._manager.begun:
            await self._reconcile()

    async def _reconcile(self) -> None:
        while True:
            try:
                return await self._devices.reconcile(self._manager.active())
            except BusError as error:
                self._context.log.info("devices not reconciled yet: %s", error)
                await asyncio.sleep(RETRY_S)


def main(argv: list[str] | None = None) -> None:
    run_actor("podworker", PodWorkerActor, argv)


if __name__ == "__main__":
    main()

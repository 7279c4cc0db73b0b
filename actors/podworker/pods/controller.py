"""Assemble what runs the pods of this node: informer, manager, static pods, status manager, CPU sets, log rotation.

Pods pass from the informer through StaticPods (mirrors stop there) and NodePods (publishes them) to the PodManager.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping

from actors.podworker.clients.api import ApiObjects, ApiPods, ApiRecorder, KnownServices
from actors.podworker.clients.bus import BusDevices, BusPleg, DeviceHealthClient, Streams
from actors.podworker.clients.runtime import BusRuntime
from actors.podworker.logs.rotation import LogRotator, RotationOptions
from actors.podworker.model.dependencies import Dependencies
from actors.podworker.model.probe_metrics import ProbeMetrics
from actors.podworker.node.controller import NodeController
from actors.podworker.pods.containers.pull_records import PullRecords
from actors.podworker.pods.cpusets import AdmittedContainer, CpusetOptions, Cpusets
from actors.podworker.pods.manager import ManagerOptions, PodManager
from actors.podworker.pods.node_pods import NodePods
from actors.podworker.pods.static_pods import MirrorTable, StaticOptions, StaticPods
from actors.podworker.pods.status_manager import StatusManager
from actors.podworker.pods.volumes import memory
from actors.podworker.pods.volumes.directories import pods_with_directories
from actors.podworker.pods.workers.metrics import PodMetrics
from protocols.actor import Context
from protocols.bus import BusError, Op
from protocols.kinds import views
from protocols.kinds.table import PODS
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.events import EventRecorder
from protocols.kubeclient.informer import Informer, InformerOptions
from protocols.lifecycle.pods.runtime_status import RUNNING
from protocols.lifecycle.pods.types import PodSpec
from protocols.lifecycle.status.device_health import initializing
from protocols.messages import cri, devices, pleg

RETRY_S = 0.1
WAIT_S = 60.0
RECONCILE_S = 60.0
"""Interval at which the device manager is sent the pods that may hold devices, and frees those of lost pods."""
NO_GRANT = devices.ContainerGrant({})


class PodController:
    """Owns the tasks that run the pods."""

    def __init__(
        self, context: Context, client: ApiClient, events: EventRecorder, streams: Streams, node: NodeController
    ) -> None:
        settings = context.settings
        self._context = context
        self._streams = streams
        self._node = node
        self._runtime = BusRuntime(context.bus)
        self._devices = BusDevices(context.bus, streams)
        self._health = DeviceHealthClient(
            settings.gate("ResourceHealthStatus"),
            inits=settings.init_container_devices != "none",
            claims_by_request=settings.claim_health_names == "request",
        )
        self._services = KnownServices(client)
        self._probes = ProbeMetrics()
        context.registry.register(self._probes)
        self._metrics, mirrors, recorder = PodMetrics(context.registry), MirrorTable(), ApiRecorder(events)
        api = ApiPods(client, mirrors)
        self._statuses = StatusManager(api, self._metrics.status.observe, self._metrics.health.observe)
        self._manager = PodManager(self._manager_options(api, ApiObjects(client), recorder))
        self._published = NodePods(self._manager)
        self._static = StaticPods(self._static_options(api, mirrors))
        selector = InformerOptions(
            field_selector=f"spec.nodeName={settings.node_name}", on_doubt=self._manager.expire_volumes
        )
        self._informer = Informer(client, PODS, selector, self._static)
        self._cpusets = Cpusets(CpusetOptions(self._runtime, recorder, self._pinned, streams.placement))
        rotation = RotationOptions(settings.container_log_max_size, settings.container_log_max_files)
        self._rotator = LogRotator(rotation, self._runtime, streams.running_logs)
        self._reconciler = DeviceReconciler(context, self._devices, self._manager.active)
        self._connected = asyncio.Event()
        self._subscribe()

    def start(self) -> None:
        self._health.start(self._context.bus)
        spawn = self._context.spawn
        spawn(self._informer.run(), "pods")
        spawn(self._services.run(), "services")
        spawn(self._rotator.run(), "logs")
        spawn(self._manager.keep_resyncing(), "resync")
        spawn(self._manager.keep_repeating(), "lost writes")
        spawn(self._cpusets.run(), "cpusets")
        spawn(self._begin(), "begin")

    def close(self) -> None:
        self._manager.close()
        self._statuses.close()

    @property
    def objects(self) -> Mapping[str, views.Pod]:
        """Pods of the API by namespace/name."""
        return self._informer.items

    def complete(self) -> bool:
        """Return True once both API and pleg have reported the pods of this node."""
        return self._informer.synced and self._streams.pod_status.was_synced

    def _manager_options(self, api: ApiPods, objects: ApiObjects, recorder: ApiRecorder) -> ManagerOptions:
        deps = Dependencies(
            runtime=self._runtime,
            pleg=BusPleg(self._context.bus, self._streams),
            devices=self._devices,
            statuses=self._statuses,
            pods=api,
            objects=objects,
            recorder=recorder,
            health=self._health,
            node_info=self._node.info,
            local_node=self._node.updater,
            services=self._services.items,
            network=self._streams.network_fault,
            recursive=self._streams.recursive_mounts,
            probes=self._probes,
            pulls=PullRecords(self._context.layout.root / "pulled-images.json"),
        )
        return ManagerOptions(
            deps=deps,
            runtime_name=self._streams.runtime_name,
            resources=self._health.status,
            started_ns=time.time_ns(),
            metrics=self._metrics,
        )

    def _static_options(self, api: ApiPods, mirrors: MirrorTable) -> StaticOptions:
        return StaticOptions(
            directory=self._context.layout.kubelet / "manifests",
            node=self._context.settings.node_name,
            pods=self._published,
            api=api,
            table=mirrors,
            node_uid=self._node.updater.uid,
            on_fault=self._on_manifest_fault,
        )

    # events

    def _on_published(self, spec: PodSpec, status: views.PodStatus) -> None:
        self._health.publish_initializing(spec.uid, initializing(spec, status))

    def _subscribe(self) -> None:
        """Upward notifications: everything else is handed down through constructors."""
        streams, manager = self._streams, self._manager
        self._devices.subscribe(self._cpusets.wake)
        self._statuses.subscribe(manager.on_settled, self._published.on_status)
        self._statuses.subscribe(on_published=self._on_published)
        self._health.subscribe(manager.on_device_health, manager.wake_all)
        manager.subscribe(self._static.on_finished)
        streams.runtime_state.subscribe(self._on_runtime)
        streams.pod_status.subscribe(self._on_status)
        streams.placements.subscribe(self._on_placement)
        streams.inventory.subscribe(on_synced=self._on_inventory_synced)
        streams.notices.subscribe(self._on_notice)

    def _on_runtime(self, op: Op, key: str, new: cri.RuntimeState | None, old: cri.RuntimeState | None) -> None:
        if self._streams.runtime.connected:
            self._connected.set()
            self._manager.retry_all()
            self._cpusets.wake()

    def _on_status(self, op: Op, uid: str, new: pleg.PodStatus | None, old: pleg.PodStatus | None) -> None:
        self._manager.on_status(op, uid, new, old)
        self._rotator.changed()
        self._cpusets.wake()

    def _on_placement(self, *change: object) -> None:
        self._cpusets.wake()

    def _on_inventory_synced(self) -> None:
        if self._streams.inventory.synced:
            self._manager.retry_all()

    def _on_notice(self, op: Op, key: str, new: devices.NodeNotice | None, old: devices.NodeNotice | None) -> None:
        if new is None or new.reason != devices.CHECKPOINT:
            return
        self._manager.readmit()
        if self._manager.begun:
            self._context.spawn(self._reconciler.reconcile(), "reconcile")

    def _on_manifest_fault(self, text: str) -> None:
        self._context.log.warning("%s", text)
        self._node.event("Warning", "InvalidManifest", text)

    def _pinned(self) -> Iterator[AdmittedContainer]:
        """Running containers of admitted pods, with their grants."""
        for uid, status in list(self._streams.pod_status.items.items()):
            if (held := self._manager.grants_of(uid)) is not None:
                spec, grants = held
                running = [run for run in status.containers if run.state == RUNNING]
                yield from (
                    AdmittedContainer(run.id, run.name, spec, grants.get(run.name, NO_GRANT)) for run in running
                )

    # start

    async def _begin(self) -> None:
        """Start the workers once API, pleg and runtime have reported all pods there are."""
        await self._connected.wait()
        while not (self._streams.pods_synced and self._informer.synced):
            with contextlib.suppress(BusError, TimeoutError):
                await self._streams.wait_pods_synced(WAIT_S)
                await self._informer.wait_synced(WAIT_S)
                await self._services.known()
        await self._mount_memory()
        while not await self._static.load():  # noqa: ASYNC110 # there is no event for it
            await asyncio.sleep(RETRY_S)
        self._published.begin(self._context.bus)
        present, ready = await self._live_pods()
        known = self._manager.active()
        self._static.hold_back(pod for pod in present if pod[0] not in known)
        left = await asyncio.to_thread(lambda: list(pods_with_directories(self._node.info)))
        self._manager.begin([*present, *left], ready)
        self._context.spawn(self._static.watch(), "manifests")
        self._context.spawn(self._static.keep_mirrors(), "mirrors")
        await self._reconciler.run()

    async def _mount_memory(self) -> None:
        """Mount the tmpfs for secrets, which the connected runtime must see, before the first volume is made."""
        info, endpoint = self._node.info, self._context.settings.runtime_endpoint
        fault = await asyncio.to_thread(memory.mount_shared, info.root, info.memory, endpoint)
        if fault:
            self._context.log.warning("secrets of pods are on the disk reason=%s", fault)
            self._node.event("Normal", "SecretsOnDisk", f"Secrets of pods are on the disk: {fault}")

    async def _live_pods(self) -> tuple[list[tuple[str, str, str]], set[str]]:
        while True:
            try:
                return await self._runtime.live_pods()
            except BusError as error:
                self._context.note(f"waits for the runtime: {error}")
                await asyncio.sleep(RETRY_S)


class DeviceReconciler:
    """Sends the device manager the pods that may hold devices, every RECONCILE_S and on request."""

    def __init__(self, context: Context, devices: BusDevices, active: Callable[[], tuple[str, ...]]) -> None:
        self._log = context.log
        self._devices = devices
        self._active = active

    async def run(self) -> None:
        while True:
            await self.reconcile()
            await asyncio.sleep(RECONCILE_S)

    async def reconcile(self) -> None:
        while True:
            try:
                return await self._devices.reconcile(self._active())
            except BusError as error:
                self._log.info("devices not reconciled yet, retrying error=%s", error)
                await asyncio.sleep(RETRY_S)

"""The device manager: wires plugins, ledger, checkpoint and CPU and memory pools, and serves the requests."""

import logging
import time
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from actors.devices.admission.admission import AdmissionOptions, Admissions, PluginAllocator, RecoveryWindow
from actors.devices.calls.log import CallLog, Purpose
from actors.devices.dra.health import HealthOverrides
from actors.devices.ledger.checkpoint import CheckpointFiles, Snapshot
from actors.devices.ledger.committer import Committer, CommitterOptions
from actors.devices.ledger.recovery import resources_of
from actors.devices.ledger.state import LedgerState, Override, drop_unmanaged
from actors.devices.machine.machine_manager import MachineManager, MachineManagerOptions
from actors.devices.machine.metrics import MachineMetrics
from actors.devices.model.errors import CheckpointNotWritten, PluginFailed, PreStartFailed
from actors.devices.model.metrics import DeviceMetrics
from actors.devices.model.types import CallDeadlines
from actors.devices.plugins.connections import PluginConnections, PluginConnectionsOptions, PluginStatusTable
from actors.devices.plugins.registration import RegistryHandler
from actors.devices.streams import DeviceStreams, DeviceStreamsOptions, MachineStreams
from protocols.bus import Bus, Call, Op, StateSource
from protocols.lifecycle.devices.claims import PodClaims
from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.ledger import Ledger, held_by
from protocols.lifecycle.devices.types import DeviceKey, PodRecord
from protocols.messages import devices as messages
from protocols.messages.allocation_history import AllocationHistory
from protocols.messages.devices import (
    AdmitPod,
    AdmittedPod,
    ChaosDevice,
    Empty,
    LedgerEvent,
    LedgerHistory,
    NodeNotice,
    PluginView,
    PodAllocation,
    PreStart,
    ReconcilePods,
    ReleasePod,
)
from protocols.node.alignment import Alignment
from protocols.trace import span

PLUGINS_RING = 256


class DeviceManagerOptions(msgspec.Struct, frozen=True):
    """Directories, limits and settings of the device manager."""

    plugin_directory: Path
    state_directory: Path
    bus: Bus
    registry: CollectorRegistry
    log: logging.Logger
    limits: CallDeadlines
    kubelet_directory: Path
    alignment: Alignment
    boot: str
    """Id of the machine's current boot."""
    calls: CallLog


class DeviceManager:
    """Built synchronously, so that its streams never show a half-loaded state."""

    def __init__(self, options: DeviceManagerOptions) -> None:
        self._options = options
        self._files = CheckpointFiles(options.state_directory, options.plugin_directory)
        recovered = self._files.load()
        state, self.warnings = drop_unmanaged(recovered.state, options.alignment), recovered.warnings
        self._lost = recovered.lost
        metrics = DeviceMetrics(options.registry)
        self._ledger = Ledger(state.pods)
        self._foreign = {record.allocation.uid: record for record in state.pods if not record.has_pod_name}
        self._inventory = Inventory(resources_of(state), state.plugin_overrides())
        self._inventory.expect(recovered.registered, time.monotonic())
        self.dra_overrides = HealthOverrides(override for override in state.overrides if not override.resource)
        self._history = AllocationHistory(state.mark, state.recent)
        self.machine = MachineManager(
            MachineManagerOptions(
                options.alignment, options.kubelet_directory, options.log, messages.ledger_began(state.mark)
            ),
            [record.allocation for record in state.pods if record.has_pod_name],
            recovered.foreign,
        )
        self._machine_metrics = MachineMetrics(options.registry)
        self._machine_streams = MachineStreams(options.bus, self.machine)
        self._encoded_state = self.machine.encoded_state()
        self._streams = DeviceStreams(
            DeviceStreamsOptions(options.bus, self._inventory, self._ledger, metrics, self._history)
        )
        self.committer = Committer(self._history, self._commit_options())
        self.plugins = PluginConnections(self._plugins_options(metrics))
        self.registry_handler = RegistryHandler(self.plugins)
        self._admissions = Admissions(self._admission_options(metrics))
        self._machine_changed()
        for resource in self._inventory.resources:
            self._streams.refresh(resource)
        for message in recovered.warnings:
            self.report_problem(messages.CHECKPOINT, message)

    async def admit(self, pod: AdmitPod, call: Call) -> AdmittedPod:
        self.refresh_machine()
        return await self._admissions.admit(pod)

    def refresh_machine(self) -> None:
        """Check for CPUs that went offline or came back: sysfs sends no events."""
        if self.machine.refresh():
            self._machine_changed()
            self.committer.request_write()

    def _machine_changed(self) -> None:
        self._machine_streams.refresh()
        self._machine_metrics.cpus(self.machine.placer.cpus)

    async def release(self, pod: ReleasePod, call: Call) -> Empty:
        await self._admissions.release(pod.uid)
        return Empty()

    async def reconcile(self, pods: ReconcilePods, call: Call) -> Empty:
        await self._admissions.reconcile(set(pods.active))
        return Empty()

    def allocations(self) -> list[PodAllocation]:
        """Return the allocations of all known pods."""
        return [record.allocation for record in self._ledger.pods.values()]

    async def publish_claims(self, uid: str, claims: PodClaims) -> None:
        """Publish a pod's prepared claims in its allocation, durably. Unknown pods are ignored."""
        known = self._ledger.pods.get(uid)
        if known is None:
            return
        record = msgspec.structs.replace(known, allocation=with_claims(known.allocation, claims))
        if self._ledger.update(record):
            await self.committer.change(record, update=True)
        else:
            await self.committer.wait_pod_written(uid)

    async def pre_start(self, request: PreStart, call: Call) -> Empty:
        """Call PreStartContainer of the plugins that require it. Raises PreStartFailed."""
        for resource in sorted(self._devices_of(request).keys() | set(request.resources)):
            await self.plugins.wait_registered(resource)
            held = self._devices_of(request)  # the pod may have been released meanwhile
            known = self._inventory.resources.get(resource)
            if known is None or not known.options.pre_start:
                continue
            if resource not in held:
                raise PreStartFailed(
                    f"no devices found allocated in local cache for pod {request.uid}, "
                    f"container {request.container}, resource {resource}"
                )
            try:
                with span(request.uid, "pre-start", container=request.container):
                    await self.plugins.serving(resource).pre_start(held[resource], self._start_purpose(request))
            except PluginFailed as error:
                raise PreStartFailed(str(error)) from None
        return Empty()

    def _start_purpose(self, request: PreStart) -> Purpose:
        pod = self._ledger.pods[request.uid].allocation
        return Purpose(f"{pod.namespace}/{pod.name} {request.container}", "the container does not start")

    async def chaos(self, order: ChaosDevice, call: Call) -> Empty:
        """Override a device's health.

        Raises:
            UnknownDevice: No plugin has reported the device.
            InvalidHealth: The health does not exist.
            CheckpointNotWritten: The override is not durable, and was taken back.
        """
        key = DeviceKey(order.resource, order.id)
        before = self._inventory.overrides.get(key)
        self._inventory.override(key, order.health)
        self._publish_override(key)
        try:
            await self.wait_written()
        except CheckpointNotWritten:
            self._inventory.restore(key, before)
            self._publish_override(key)
            raise
        return Empty()

    def start(self) -> None:
        """Write every file once, and start the grace period of plugins that do not come back."""
        self.committer.request_write()
        self.plugins.start()

    def report_problem(self, reason: str, message: str) -> None:
        """Log an error and publish it as an event of the node."""
        self._options.log.error("%s", message)
        self._streams.notice(NodeNotice("Warning", reason, message))

    def _changed(self, resource: str) -> None:
        """Publish a resource. kubelet's checkpoint lists healthy devices, so it changes too."""
        self._streams.refresh(resource)
        self.committer.request_write_later()

    async def wait_written(self) -> None:
        """Return once overrides are on disk. Raises CheckpointNotWritten."""
        self.committer.request_write()
        await self.committer.wait_written()

    def _publish_override(self, key: DeviceKey) -> None:
        self.committer.request_write()
        if key.resource in self._inventory.resources:
            self._streams.refresh(key.resource)

    async def history(self, request: Empty, call: Call) -> LedgerHistory:
        return self._history.as_message()

    def _devices_of(self, request: PreStart) -> dict[str, list[str]]:
        record = self._ledger.pods.get(request.uid)
        held: dict[str, list[str]] = {}
        for container in record.allocation.containers if record else ():
            if container.name == request.container:
                for device in container.devices:
                    held.setdefault(device.resource, []).append(device.id)
        return held

    def _commit_options(self) -> CommitterOptions:
        return CommitterOptions(
            snapshot=self._snapshot,
            save=self._save,
            publish=self._publish,
            undo=self._undo,
            log=lambda message: self._options.log.error("%s", message),
            retry=self._options.limits.commit_retry,
        )

    def _admission_options(self, metrics: DeviceMetrics) -> AdmissionOptions:
        return AdmissionOptions(
            ledger=self._ledger,
            inventory=self._inventory,
            plugins=self.plugins,
            committer=self.committer,
            allocator=PluginAllocator(self.plugins, metrics, self._options.log),
            placer=self.machine.placer,
            machine=self._machine_metrics,
            boot=self._options.boot,
            recovery_window=RecoveryWindow(self._lost, self._options.limits),
        )

    def _plugins_options(self, metrics: DeviceMetrics) -> PluginConnectionsOptions:
        return PluginConnectionsOptions(
            directory=self._options.plugin_directory,
            inventory=self._inventory,
            limits=self._options.limits,
            metrics=metrics,
            changed=self._changed,
            registered=lambda resource: self.committer.request_write(),
            log=self._options.log,
            wait_written=self.committer.wait_written,
            status_table=self._status_table(),
            calls=self._options.calls,
        )

    def _save(self, snapshot: Snapshot) -> None:
        """Write all files, called in a thread. State files first: only the checkpoint makes a change valid."""
        self.machine.save(self._encoded_state)
        self._files.save(snapshot)

    def _status_table(self) -> PluginStatusTable:
        views: dict[str, PluginView] = {}
        stream = self._options.bus.own(messages.PLUGINS, StateSource(views), ring=PLUGINS_RING)

        def publish(op: Op, key: str, view: PluginView) -> None:
            stream.publish(op, key, b"" if op is Op.DELETE else view)

        return PluginStatusTable(publish, views)

    def _snapshot(self) -> Snapshot:
        self._encoded_state = self.machine.encoded_state()
        overrides = [Override(key.resource, key.id, health) for key, health in self._inventory.overrides.items()]
        state = LedgerState(
            pods=tuple(self._ledger.pods.values()),
            overrides=(*overrides, *self.dra_overrides.stored()),
            resources=tuple(self._inventory.resources),
        )
        return Snapshot(state, self._inventory.all_healthy())

    def _publish(self, event: LedgerEvent) -> None:
        """Publish an event. Released devices that no plugin reports leave the health stream."""
        self._streams.allocation(event)
        if self.machine.placer.pins:
            self._machine_changed()
        unreported = (key for key in held_by(event.allocation) if self._inventory.reported(key) is None)
        for resource in {key.resource for key in unreported}:
            self._streams.refresh(resource)

    def _undo(self, record: PodRecord) -> None:
        uid = record.allocation.uid
        if self._ledger.pods.get(uid) is not record:
            return
        if uid in self._foreign:
            self._ledger.admit(self._foreign[uid])  # back to a record without its pod name
        else:
            self._ledger.release(uid)
            self.machine.placer.release(uid)


def with_claims(allocation: PodAllocation, claims: PodClaims) -> PodAllocation:
    """Return the allocation with the devices of the pod's claims."""
    replace = msgspec.structs.replace
    containers = tuple(replace(item, claims=claims.containers.get(item.name, ())) for item in allocation.containers)
    return replace(allocation, containers=containers, claims=claims.unreferenced)

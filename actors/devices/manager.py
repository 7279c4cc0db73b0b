"""The device manager put together: state from the checkpoint, and what each request does to it."""

import logging
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from actors.devices.admission.admission import AdmissionOptions, Admissions, Allocator, Claiming
from actors.devices.dra.claim_cache import PodClaims
from actors.devices.dra.health import Forced
from actors.devices.ledger.checkpoint import CheckpointFiles, Snapshot
from actors.devices.ledger.committer import CommitOptions, Commits
from actors.devices.ledger.ledger import Ledger, held_by
from actors.devices.ledger.recovery import resources_of
from actors.devices.ledger.state import Override, State, in_force
from actors.devices.machine.machine_manager import KeeperOptions, MachineKeeper
from actors.devices.machine.metrics import MachineMetrics
from actors.devices.model.errors import CheckpointNotWritten, PluginFailed
from actors.devices.model.metrics import DeviceMetrics
from actors.devices.model.types import DeviceKey, Limits, PodRecord
from actors.devices.plugins.connections import Plugins, PluginsOptions
from actors.devices.plugins.inventory import Inventory
from actors.devices.plugins.registration import WatchedPlugins
from actors.devices.plugins.status_table import Board
from actors.devices.streams import MachineStreams, Streams, StreamsOptions
from protocols.alignment import Alignment
from protocols.bus import Bus, Call, Op, StateSource
from protocols.ledger import History
from protocols.messages import devices as messages
from protocols.messages.devices import (
    AdmitPod,
    AdmittedPod,
    ChaosDevice,
    Empty,
    LedgerEvent,
    LedgerHistory,
    Notice,
    PodAllocation,
    PreStart,
    ReconcilePods,
    ReleasePod,
)

PLUGINS_RING = 256


@dataclass(frozen=True)
class ManagerOptions:
    plugin_directory: Path
    state_directory: Path
    bus: Bus
    registry: CollectorRegistry
    log: logging.Logger
    limits: Limits
    kubelet_directory: Path
    alignment: Alignment
    boot: str
    """Id of the machine's present boot."""


class Manager:
    """Owns inventory, ledger and checkpoint. Made in one go, so its streams never show a state half loaded."""

    def __init__(self, options: ManagerOptions) -> None:
        self._options = options
        self._files = CheckpointFiles(options.state_directory, options.plugin_directory)
        found = self._files.load()
        state, self.troubles = in_force(found.state, options.alignment), found.lines
        self._lost = found.lost
        metrics = DeviceMetrics(options.registry)
        self._ledger = Ledger(state.pods)
        self._foreign = {record.allocation.uid: record for record in state.pods if not record.named}
        self._inventory = Inventory(resources_of(state), state.forced())
        self._inventory.expect(found.registered, time.monotonic())
        self.forced = Forced(order for order in state.overrides if not order.resource)
        self._history = History(state.mark, state.recent)
        self.machine = MachineKeeper(
            KeeperOptions(options.alignment, options.kubelet_directory, options.log),
            [record.allocation for record in state.pods if record.named],
            found.foreign,
        )
        self._machine_metrics = MachineMetrics(options.registry)
        self._machine_streams = MachineStreams(options.bus, self.machine)
        self._copies = self.machine.copies()
        self._streams = Streams(StreamsOptions(options.bus, self._inventory, self._ledger, metrics, self._history))
        self.commits = Commits(self._history, self._commit_options())
        self.plugins = Plugins(self._plugins_options(metrics))
        self.watched = WatchedPlugins(self.plugins)
        self._admissions = Admissions(self._admission_options(metrics))
        self._machine_changed()
        for resource in self._inventory.resources:
            self._streams.refresh(resource)
        for line in found.lines:
            self.tell(messages.CHECKPOINT, line)

    async def admit(self, pod: AdmitPod, call: Call) -> AdmittedPod:
        self.look_at_machine()
        return await self._admissions.admit(pod)

    def look_at_machine(self) -> None:
        """CPUs may have gone offline or come back: sysfs tells nobody, so it is looked at."""
        if self.machine.refresh():
            self._machine_changed()
            self.commits.touch()

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
        """Of every pod that holds something, or may."""
        return [record.allocation for record in self._ledger.pods.values()]

    async def show_claims(self, uid: str, claims: PodClaims) -> None:
        """The pod's allocation tells of its prepared claims from now on, durably; an unknown pod has none."""
        known = self._ledger.pods.get(uid)
        if known is None:
            return
        record = msgspec.structs.replace(known, allocation=with_claims(known.allocation, claims))
        if self._ledger.update(record):
            await self.commits.change(record, update=True)

    async def pre_start(self, request: PreStart, call: Call) -> Empty:
        """Tell the plugins that asked for it; raises PluginFailed when one of them is gone or refuses."""
        held = self._devices_of(request)
        for resource in sorted(held.keys() | set(request.resources)):
            await self.plugins.returned(resource)
            known = self._inventory.resources.get(resource)
            if known is None or not known.options.pre_start:
                continue
            if resource not in held:
                raise PluginFailed(
                    f"no devices found allocated in local cache for pod {request.uid}, "
                    f"container {request.container}, resource {resource}"
                )
            await self.plugins.serving(resource).pre_start(held[resource])
        return Empty()

    async def chaos(self, order: ChaosDevice, call: Call) -> Empty:
        """Raises UnknownDevice, InvalidHealth, or CheckpointNotWritten: the device is as before then."""
        key = DeviceKey(order.resource, order.id)
        before = self._inventory.overrides.get(key)
        self._inventory.force(key, order.health)
        self._overridden(key)
        try:
            await self.remembered()
        except CheckpointNotWritten:
            self._inventory.restore(key, before)
            self._overridden(key)
            raise
        return Empty()

    def start(self) -> None:
        """Every file is made right before anything else, and plugins that do not come back are forgotten in time."""
        self.commits.touch()
        self.plugins.start()

    def tell(self, reason: str, line: str) -> None:
        """Aloud: a line in the log, and an event of the node."""
        self._options.log.error("%s", line)
        self._streams.notice(Notice("Warning", reason, line))

    def _changed(self, resource: str) -> None:
        """Healthy devices are part of kubelet's checkpoint."""
        self._streams.refresh(resource)
        self.commits.touch_lazily()

    async def remembered(self) -> None:
        """What was ordered is on disk. Raises CheckpointNotWritten."""
        self.commits.touch()
        await self.commits.flushed()

    def _overridden(self, key: DeviceKey) -> None:
        self.commits.touch()
        if key.resource in self._inventory.resources:
            self._streams.refresh(key.resource)

    async def history(self, request: Empty, call: Call) -> LedgerHistory:
        return self._history.told()

    def _devices_of(self, request: PreStart) -> dict[str, list[str]]:
        record = self._ledger.pods.get(request.uid)
        wanted: dict[str, list[str]] = {}
        for container in record.allocation.containers if record else ():
            if container.name == request.container:
                for device in container.devices:
                    wanted.setdefault(device.resource, []).append(device.id)
        return wanted

    def _commit_options(self) -> CommitOptions:
        return CommitOptions(
            snapshot=self._snapshot,
            save=self._save,
            publish=self._publish,
            undo=self._undo,
            log=lambda line: self._options.log.error("%s", line),
            retry=self._options.limits.commit_retry,
        )

    def _admission_options(self, metrics: DeviceMetrics) -> AdmissionOptions:
        return AdmissionOptions(
            ledger=self._ledger,
            inventory=self._inventory,
            plugins=self.plugins,
            commits=self.commits,
            allocator=Allocator(self.plugins, metrics, self._options.log),
            placer=self.machine.placer,
            machine=self._machine_metrics,
            boot=self._options.boot,
            claims=Claiming(self._lost, self._options.limits),
        )

    def _plugins_options(self, metrics: DeviceMetrics) -> PluginsOptions:
        return PluginsOptions(
            directory=self._options.plugin_directory,
            inventory=self._inventory,
            limits=self._options.limits,
            metrics=metrics,
            changed=self._changed,
            registered=lambda resource: self.commits.touch(),
            log=self._options.log,
            remembered=self.commits.flushed,
            board=self._board(),
        )

    def _save(self, snapshot: Snapshot) -> None:
        """Called in a thread, one at a time. State files first: the checkpoint is what makes it all true."""
        self.machine.save(self._copies)
        self._files.save(snapshot)

    def _board(self) -> Board:
        board = Board()
        stream = self._options.bus.own(messages.PLUGINS, StateSource(board.views), ring=PLUGINS_RING)
        board.tell = lambda op, key, view: stream.publish(op, key, b"" if op is Op.DELETE else view)
        return board

    def _snapshot(self) -> Snapshot:
        self._copies = self.machine.copies()
        overrides = [Override(key.resource, key.id, health) for key, health in self._inventory.overrides.items()]
        state = State(
            pods=tuple(self._ledger.pods.values()),
            overrides=(*overrides, *self.forced.orders()),
            resources=tuple(self._inventory.resources),
        )
        return Snapshot(state, self._inventory.all_healthy())

    def _publish(self, event: LedgerEvent) -> None:
        """A released device that nobody reports any more leaves the health stream with its pod."""
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
            self._ledger.admit(self._foreign[uid])  # it holds its devices, and is nameless again
        else:
            self._ledger.release(uid)
            self.machine.placer.release(uid)


def with_claims(allocation: PodAllocation, claims: PodClaims) -> PodAllocation:
    replace = msgspec.structs.replace
    containers = tuple(replace(item, claims=claims.containers.get(item.name, ())) for item in allocation.containers)
    return replace(allocation, containers=containers, claims=claims.loose)

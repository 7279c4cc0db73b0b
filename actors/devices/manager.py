"""The device manager put together: state from the checkpoint, and what each request does to it."""

import logging
from dataclasses import dataclass
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from actors.devices.admission.admission import AdmissionOptions, Admissions
from actors.devices.dra.shares import PodClaims
from actors.devices.errors import CheckpointNotWritten
from actors.devices.ledger.checkpoint import CheckpointFile, Override, State
from actors.devices.ledger.commit import CommitOptions, Commits
from actors.devices.ledger.history import History
from actors.devices.ledger.ledger import Ledger, held_by
from actors.devices.machine.keeper import KeeperOptions, MachineKeeper
from actors.devices.machine.metrics import MachineMetrics
from actors.devices.machine.streams import MachineStreams
from actors.devices.metrics import DeviceMetrics
from actors.devices.plugins.inventory import Inventory
from actors.devices.plugins.plugins import Plugins, PluginsOptions
from actors.devices.plugins.watched import WatchedPlugins
from actors.devices.streams import Streams, StreamsOptions
from actors.devices.types import DeviceKey, Limits, PodRecord
from protocols.alignment import Alignment
from protocols.bus import Bus, Call
from protocols.messages.devices import (
    AdmitPod,
    AdmittedPod,
    ChaosDevice,
    Empty,
    LedgerEvent,
    LedgerHistory,
    PodAllocation,
    PreStart,
    ReconcilePods,
    ReleasePod,
)


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


class Manager:
    """Owns inventory, ledger and checkpoint. Made in one go, so its streams never show a state half loaded."""

    def __init__(self, options: ManagerOptions) -> None:
        self._options = options
        self._file = CheckpointFile(options.state_directory)
        state, trouble = self._file.load()
        if trouble:
            options.log.error("%s", trouble)
        metrics = DeviceMetrics(options.registry)
        self._ledger = Ledger(state.pods)
        self._inventory = Inventory(known_resources(state), state.forced())
        self._history = History(state.mark, state.recent)
        self.machine = MachineKeeper(
            KeeperOptions(options.alignment, options.kubelet_directory, options.log),
            [record.allocation for record in state.pods],
        )
        self._machine_metrics = MachineMetrics(options.registry)
        self._machine_streams = MachineStreams(options.bus, self.machine)
        self._copies = self.machine.copies()
        self._streams = Streams(StreamsOptions(options.bus, self._inventory, self._ledger, metrics, self._history))
        self.commits = Commits(self._history, self._commit_options())
        self.plugins = Plugins(self._plugins_options(metrics))
        self.watched = WatchedPlugins(self.plugins)
        self._admissions = Admissions(
            AdmissionOptions(
                ledger=self._ledger,
                inventory=self._inventory,
                plugins=self.plugins,
                commits=self.commits,
                metrics=metrics,
                placer=self.machine.placer,
                machine=self._machine_metrics,
            )
        )
        self._machine_changed()
        for resource in self._inventory.resources:
            self._streams.refresh(resource)

    async def admit(self, pod: AdmitPod, call: Call) -> AdmittedPod:
        self.look_at_machine()
        return await self._admissions.admit(pod)

    def begin(self) -> None:
        """State files that are not there, or not up to date, are written before anything else."""
        if self.machine.outdated():
            self.commits.touch()

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
        for resource, ids in sorted(self._devices_of(request).items()):
            if self._inventory.resources[resource].options.pre_start:
                await self.plugins.serving(resource).pre_start(ids)
        return Empty()

    async def chaos(self, order: ChaosDevice, call: Call) -> Empty:
        """Raises UnknownDevice, InvalidHealth, or CheckpointNotWritten: the device is as before then."""
        key = DeviceKey(order.resource, order.id)
        before = self._inventory.overrides.get(key)
        self._inventory.force(key, order.health)
        self._overridden(key)
        try:
            await self.commits.flushed()
        except CheckpointNotWritten:
            self._inventory.restore(key, before)
            self._overridden(key)
            raise
        return Empty()

    def _overridden(self, key: DeviceKey) -> None:
        self.commits.touch()
        if key.resource in self._inventory.resources:
            self._streams.refresh(key.resource)

    async def history(self, request: Empty, call: Call) -> LedgerHistory:
        return LedgerHistory(floor=self._history.floor, events=self._history.kept())

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
            snapshot=self._state,
            save=self._save,
            publish=self._publish,
            undo=self._undo,
            log=lambda line: self._options.log.error("%s", line),
            retry=self._options.limits.commit_retry,
        )

    def _plugins_options(self, metrics: DeviceMetrics) -> PluginsOptions:
        return PluginsOptions(
            directory=self._options.plugin_directory,
            inventory=self._inventory,
            limits=self._options.limits,
            metrics=metrics,
            changed=self._streams.refresh,
            registered=lambda resource: self.commits.touch(),
            log=self._options.log,
        )

    def _save(self, checkpoint: bytes) -> None:
        """Called in a thread, one at a time. State files first: the checkpoint is what makes it all true."""
        self.machine.save(self._copies)
        self._file.save(checkpoint)

    def _state(self) -> State:
        self._copies = self.machine.copies()
        overrides = (Override(key.resource, key.id, health) for key, health in self._inventory.overrides.items())
        return State(
            pods=tuple(self._ledger.pods.values()),
            overrides=tuple(overrides),
            resources=tuple(self._inventory.resources),
        )

    def _publish(self, event: LedgerEvent) -> None:
        """A released device that nobody reports any more leaves the health stream with its pod."""
        self._streams.allocation(event)
        self._machine_changed()
        unreported = (key for key in held_by(event.allocation) if self._inventory.reported(key) is None)
        for resource in {key.resource for key in unreported}:
            self._streams.refresh(resource)

    def _undo(self, record: PodRecord) -> None:
        if self._ledger.pods.get(record.allocation.uid) is record:
            self._ledger.release(record.allocation.uid)
            self.machine.placer.release(record.allocation.uid)


def with_claims(allocation: PodAllocation, claims: PodClaims) -> PodAllocation:
    replace = msgspec.structs.replace
    containers = tuple(replace(item, claims=claims.containers.get(item.name, ())) for item in allocation.containers)
    return replace(allocation, containers=containers, claims=claims.loose)


def known_resources(state: State) -> list[str]:
    held = {key.resource for record in state.pods for key in held_by(record.allocation)}
    return sorted(held | set(state.resources))

"""Random histories of pods, plugins, disks and crashes over the real admission, ledger and checkpoint; no processes.

After every single event no device is in two pods, and whoever replays the events from any point has what a List shows:
also across crashes before, between and after the writes of the two checkpoint files.
"""

import asyncio
import errno
import logging
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from prometheus_client import CollectorRegistry

from actors.devices.admission.admission import AdmissionOptions, Admissions, PluginAllocator, RecoveryWindow
from actors.devices.calls.log import Purpose
from actors.devices.ledger import kubelet_checkpoint as kubelet
from actors.devices.ledger.checkpoint import CheckpointFiles, Snapshot
from actors.devices.ledger.committer import Committer, CommitterOptions
from actors.devices.ledger.kubelet_checkpoint import entries_of
from actors.devices.ledger.recovery import resources_of
from actors.devices.ledger.state import LedgerState
from actors.devices.machine.metrics import MachineMetrics
from actors.devices.machine.placer import Placer, Rules
from actors.devices.model.errors import CheckpointNotWritten, PluginFailed
from actors.devices.model.metrics import DeviceMetrics
from actors.devices.model.types import CallDeadlines
from actors.devices.plugins.connections import PluginConnections
from actors.devices.topology.hints import NumaInfo
from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.ledger import Ledger, held_by
from protocols.lifecycle.devices.types import DeviceKey, PluginDevice, PluginOptions, PodRecord
from protocols.lifecycle.errors import AdmissionRejected, NotEnoughResource
from protocols.messages.allocation_history import AllocationHistory
from protocols.messages.devices import AdmitPod, AdmittedPod, ContainerRequest, LedgerEvent, PodAllocation

RESOURCES = ["a.b/gpu", "a.b/nic"]
UIDS = [f"p{number}" for number in range(5)]
FAST = Path("/dev/shm") if Path("/dev/shm").is_dir() else None
"""Where fsync costs nothing: what is tested is the order of writes, not the disk."""
FATES = st.sampled_from(["between", "", "after", "", "before", "", "full", ""])
FOUR = dict.fromkeys("abcd", (True, ()))
HEALTH_AND_NODES = st.tuples(st.booleans(), st.sampled_from([(), (0,), (1,)]))
DEVICES = st.just(FOUR) | st.dictionaries(st.sampled_from("abcdef"), HEALTH_AND_NODES)
KINDS = st.sampled_from(["app", "init", "sidecar"])
CONTAINERS = st.lists(st.tuples(KINDS, st.sampled_from([1, 0, 2]), st.sampled_from([0, 1])), min_size=1, max_size=3)
PODS = st.dictionaries(st.sampled_from(UIDS), CONTAINERS, min_size=1, max_size=3)


class Died(Exception):
    """kill -9, at this very point."""


@dataclass
class FakePlugin:
    resource: str
    options: PluginOptions
    fails: bool = False

    async def allocate(self, ids: list[str], purpose: Purpose) -> bytes:
        await asyncio.sleep(0)
        if self.fails:
            raise PluginFailed("out of luck")
        return b"\n\x04\n\x00\x12\x00"

    async def preferred(self, available: list[str], included: list[str], size: int, purpose: Purpose) -> list[str]:
        await asyncio.sleep(0)
        return [*reversed(available), "alien"]


@dataclass
class FakePlugins:
    """Stands where `PluginConnections` does: who serves is what the inventory says."""

    inventory: Inventory
    plugins: dict[str, FakePlugin] = field(default_factory=dict)

    async def wait_registered(self, resource: str) -> None:
        await asyncio.sleep(0)

    def expect(self, resources: Iterable[str]) -> None:
        self.inventory.expect(resources, 0.0)

    def serving(self, resource: str) -> FakePlugin:
        if not self.inventory.connected(resource):
            raise PluginFailed(f"endpoint of {resource} has been stopped")
        return self.plugins[resource]


class Life:
    """One life of the manager: from its files, to its files."""

    def __init__(self, directory: Path, watch: "Watch") -> None:
        self.files = CheckpointFiles(directory / "devices", directory / "device-plugins")
        found = self.files.load()
        assert found.warnings == (), found.warnings
        self.ledger = Ledger(found.state.pods)
        self.inventory = Inventory(resources_of(found.state))
        self.inventory.expect(found.registered, 0.0)
        self.history = AllocationHistory(found.state.mark, found.state.recent)
        self.plugins = FakePlugins(self.inventory)
        self.fate = ""
        self.watch = watch
        placer = Placer(Rules(NumaInfo(nodes=(0, 1))), None, None)
        self.commits = Committer(self.history, self._commit_options())
        self.admissions = Admissions(self._admission_options(placer))

    def _commit_options(self) -> CommitterOptions:
        return CommitterOptions(self._snapshot, self._save, self.watch.event, self._undo, lambda line: None, retry=0.0)

    def _admission_options(self, placer: Placer) -> AdmissionOptions:
        registry = CollectorRegistry()
        plugins = cast(PluginConnections, self.plugins)
        return AdmissionOptions(
            ledger=self.ledger,
            inventory=self.inventory,
            plugins=plugins,
            committer=self.commits,
            allocator=PluginAllocator(plugins, DeviceMetrics(registry), logging.getLogger("model")),
            placer=placer,
            machine=MachineMetrics(registry),
            recovery_window=RecoveryWindow(False, CallDeadlines()),
            boot="boot",
        )

    def _snapshot(self) -> Snapshot:
        pods, resources = tuple(self.ledger.pods.values()), tuple(self.inventory.resources)
        return Snapshot(LedgerState(pods=pods, resources=resources), self.inventory.all_healthy())

    def _save(self, snapshot: Snapshot) -> None:
        fate, self.fate = self.fate, ""
        if fate == "full":
            raise OSError(errno.ENOSPC, "No space left on device")
        if fate == "before":
            raise Died
        older = self.files.kubelets.read_bytes() if self.files.kubelets.exists() else None
        self.files.save(snapshot)
        if fate == "between":
            self.files.kubelets.unlink() if older is None else self.files.kubelets.write_bytes(older)
        if fate:
            raise Died

    def _undo(self, record: PodRecord) -> None:
        if self.ledger.pods.get(record.allocation.uid) is record:
            self.ledger.release(record.allocation.uid)


class Watch:
    """All followers at once: what has been told, from which every later view must follow."""

    def __init__(self) -> None:
        self.view: dict[str, PodAllocation] = {}
        self.mark = 0
        self.told: list[LedgerEvent] = []

    def event(self, event: LedgerEvent) -> None:
        assert event.mark == self.mark + 1, "a gap or a repetition"
        self.mark = event.mark
        self.told.append(event)
        if event.deleted:
            del self.view[event.allocation.uid]
        else:
            assert event.new == (event.allocation.uid not in self.view)
            self.view[event.allocation.uid] = event.allocation
        owners: dict[DeviceKey, str] = {}
        for uid, allocation in self.view.items():
            for key in held_by(allocation):
                assert owners.setdefault(key, uid) == uid, f"{key.text} is in two pods"

    def resume(self, history: AllocationHistory) -> None:
        """After a crash: what was durable and never told is told now."""
        events = history.since(self.mark)
        assert events is not None, "a follower has to start again because of a crash"
        for event in events:
            self.event(event)


class Story(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp(prefix="np", dir=FAST))
        self.loop = asyncio.new_event_loop()
        self.watch = Watch()
        self.points: list[tuple[int, dict[str, PodAllocation]]] = []
        self.generations: dict[str, int] = {}
        self.offered: dict[str, tuple[dict[str, Any], bool, bool]] = {}

    def teardown(self) -> None:
        self._cancel_all()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.directory)

    @initialize()
    def begin(self) -> None:
        self._live()
        self._settle()
        self.watch.mark = self.life.history.mark
        for resource in RESOURCES:
            self.plugin_lists(resource, FOUR, False, False)

    def _settle(self) -> None:
        """All that was handed in is on disk; a full disk has room again by now."""
        while self._play(self.life.commits.wait_written()) != [None]:
            pass

    def _live(self) -> None:
        self.life = Life(self.directory, self.watch)
        self.running = self.loop.create_task(self.life.commits.run())
        self.generations.clear()
        self.life.commits.request_write()

    def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    def _crash(self) -> None:
        self._cancel_all()
        back = {resource: self.offered[resource] for resource in self.generations}
        self._live()
        self.watch.resume(self.life.history)
        for resource, offer in back.items():  # plugins see the manager's new socket and register again
            self.plugin_lists(resource, *offer)

    def _play(self, *stories: Any) -> list[Any]:
        """All at once; ends with the stories, or with the manager's death."""

        async def play() -> list[Any]:
            whole = asyncio.gather(*stories, return_exceptions=True)
            futures: list[asyncio.Future[Any]] = [whole, self.running]
            await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
            return await whole if not self.running.done() else []

        results = self.loop.run_until_complete(play())
        if self.running.done():
            assert isinstance(self.running.exception(), Died)
            self._crash()
        return results

    @rule(resource=st.sampled_from(RESOURCES), devices=DEVICES, preferred=st.booleans(), fails=st.booleans())
    def plugin_lists(self, resource: str, devices: dict[str, Any], preferred: bool, fails: bool) -> None:
        inventory = self.life.inventory
        self.offered[resource] = (devices, preferred, fails)
        if resource not in self.generations or preferred:
            self.generations[resource] = inventory.register(resource)
        options = PluginOptions(preferred=preferred)
        self.life.plugins.plugins[resource] = FakePlugin(resource, options, fails and preferred)
        listed = [PluginDevice(id, well, numa) for id, (well, numa) in devices.items()]
        inventory.report(resource, self.generations[resource], options, listed)
        self.life.commits.request_write()

    @rule(resource=st.sampled_from(RESOURCES), forgotten=st.booleans())
    def plugin_goes(self, resource: str, forgotten: bool) -> None:
        if resource in self.generations:
            self.life.inventory.disconnect(resource, self.generations.pop(resource), 0.0)
        if forgotten:
            self.life.inventory.expire(1000.0, 300.0)
        self.life.commits.request_write()

    @rule(rounds=st.lists(st.tuples(PODS, st.sets(st.sampled_from(UIDS), max_size=2), FATES), min_size=3, max_size=6))
    def pods_come_and_go(self, rounds: list[Any]) -> None:
        for pods, released, fate in rounds:
            self._round(pods, released, fate)
            self.what_was_told_is_the_ledger_and_on_disk_in_kubelets_words()

    def _round(self, pods: dict[str, Any], released: set[str], fate: str) -> None:
        """All at the same time, while the disk or the process may fail."""
        self.life.fate = fate
        asked = [pod_of(uid, containers) for uid, containers in pods.items()]
        stories = [self.life.admissions.admit(pod) for pod in asked]
        results = self._play(*stories, *(self.life.admissions.release(uid) for uid in sorted(released - pods.keys())))
        for pod, result in zip(asked, results, strict=False):
            allowed = (AdmittedPod, AdmissionRejected, NotEnoughResource, CheckpointNotWritten)
            assert isinstance(result, allowed), result
            if isinstance(result, AdmittedPod):
                assert pod.uid in self.watch.view, "answered before it was told"

    @rule(active=st.sets(st.sampled_from(UIDS)), fate=FATES)
    def reconciled(self, active: set[str], fate: str) -> None:
        self.life.fate = fate
        done = self._play(self.life.admissions.reconcile(active))
        if done:
            assert set(self.watch.view) <= active

    @rule()
    def killed(self) -> None:
        self._crash()

    @rule()
    def somebody_lists(self) -> None:
        self.points.append((len(self.watch.told), dict(self.watch.view)))

    @invariant()
    def replaying_from_any_point_gives_the_list(self) -> None:
        for position, view in self.points:
            replayed = dict(view)
            for event in self.watch.told[position:]:
                if event.deleted:
                    replayed.pop(event.allocation.uid)
                else:
                    replayed[event.allocation.uid] = event.allocation
            assert replayed == self.watch.view

    @invariant()
    def what_was_told_is_the_ledger_and_on_disk_in_kubelets_words(self) -> None:
        if not hasattr(self, "life"):
            return
        self.life.fate = ""
        self._settle()
        assert {uid: record.allocation for uid, record in self.life.ledger.pods.items()} == self.watch.view
        assert set(self.life.ledger.owners) == {key for item in self.watch.view.values() for key in held_by(item)}
        data = kubelet.decode(self.life.files.kubelets.read_bytes())
        told = [entry for allocation in self.watch.view.values() for entry in entries_of(PodRecord(allocation))]
        assert texts(data.entries or ()) == texts(told)


def texts(entries: Iterable[kubelet.CheckpointEntry]) -> set[str]:
    return {f"{entry.pod} {entry.container} {entry.resource} {entry.devices}" for entry in entries}


def pod_of(uid: str, containers: list[tuple[str, int, int]]) -> AdmitPod:
    requests = tuple(
        ContainerRequest(f"c{at}", kind, {RESOURCES[0]: first, RESOURCES[1]: second})
        for at, (kind, first, second) in enumerate(containers)
    )
    return AdmitPod(uid, "default", uid, requests)


TestStory = Story.TestCase
TestStory.settings = settings(stateful_step_count=15)


async def test_a_resource_that_is_forgotten_is_not_enough_and_says_so_in_kubelets_words(tmp_path: Path) -> None:
    life = Life(tmp_path, Watch())
    generation = life.inventory.register(RESOURCES[0])
    life.inventory.report(RESOURCES[0], generation, PluginOptions(), [PluginDevice("a", True)])
    life.inventory.disconnect(RESOURCES[0], generation, 0.0)
    life.inventory.expire(1000.0, 300.0)
    with pytest.raises(NotEnoughResource) as refused:
        await life.admissions.admit(pod_of("p", [("app", 2, 0)]))
    words = "Node didn't have enough resource: a.b/gpu, requested: 2, used: 0, capacity: 0"
    assert (str(refused.value), refused.value.details) == (words, {"reason": "OutOfa.b/gpu"})


async def test_second_release_of_a_pod_is_answered_once_the_first_is_on_disk(tmp_path: Path) -> None:
    life = Life(tmp_path, Watch())
    life.watch.mark = life.history.mark
    admitted = PodRecord(PodAllocation("p1", "default", "p1"), {})
    life.ledger.admit(admitted)
    life.commits.change(admitted)
    releases = [asyncio.create_task(life.admissions.release("p1")) for _ in range(2)]
    await asyncio.sleep(0.01)
    assert not any(release.done() for release in releases)
    running = asyncio.create_task(life.commits.run())
    await asyncio.gather(*releases)
    assert life.files.load().state.pods == ()
    running.cancel()

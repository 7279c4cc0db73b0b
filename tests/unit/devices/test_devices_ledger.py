"""The ledger and the inventory under random histories: never a device twice, never more than there are."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from actors.devices.admission.grants import PodPlan
from protocols.lifecycle.devices.choice import choose, follow_preference
from protocols.lifecycle.devices.inventory import Inventory
from protocols.lifecycle.devices.ledger import Ledger, held_by
from protocols.lifecycle.devices.plan import steps
from protocols.lifecycle.devices.types import DeviceKey, PluginDevice, PluginOptions, PodRecord
from protocols.lifecycle.errors import DevicesInUse
from protocols.messages.devices import (
    UNKNOWN,
    AdmitPod,
    AllocatedDevice,
    ContainerAllocation,
    ContainerRequest,
    PodAllocation,
)

R = "example.com/gpu"
IDS = [f"d{number}" for number in range(6)]
UIDS = st.sampled_from(["p1", "p2", "p3", "p4"])
NUMA = st.sampled_from([(), (0,), (1,), (0, 1)])


def record(uid: str, ids: list[str]) -> PodRecord:
    devices = tuple(AllocatedDevice(R, id) for id in ids)
    return PodRecord(PodAllocation(uid, "default", uid, (ContainerAllocation("main", devices=devices),)))


class LedgerStory(RuleBasedStateMachine):
    """Admissions with their reservations, failures, releases and re-admissions in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.reserved: dict[str, set[str]] = {}
        self.held: dict[str, set[str]] = {}

    @rule(uid=UIDS, ids=st.lists(st.sampled_from(IDS), unique=True, max_size=3))
    def reserve(self, uid: str, ids: list[str]) -> None:
        if uid in self.held:
            return
        others = {id for owner, taken in {**self.held, **self.reserved}.items() if owner != uid for id in taken}
        try:
            self.ledger.reserve(uid, [DeviceKey(R, id) for id in ids])
            assert not others & set(ids)
            self.reserved.setdefault(uid, set()).update(ids)
        except DevicesInUse:
            assert others & set(ids)

    @rule(uid=UIDS)
    def admit(self, uid: str) -> None:
        if uid in self.reserved:
            ids = self.reserved.pop(uid)
            self.ledger.admit(record(uid, sorted(ids)))
            self.held[uid] = ids

    @rule(uid=UIDS)
    def fail(self, uid: str) -> None:
        self.ledger.cancel(uid)
        self.reserved.pop(uid, None)

    @rule(uid=UIDS)
    def release(self, uid: str) -> None:
        if uid in self.reserved:
            return
        assert (self.ledger.release(uid) is not None) == (uid in self.held)
        self.held.pop(uid, None)

    @invariant()
    def every_device_has_one_owner(self) -> None:
        owners = {id: uid for uid, ids in {**self.held, **self.reserved}.items() for id in ids}
        assert self.ledger.owners == {DeviceKey(R, id): uid for id, uid in owners.items()}
        assert self.ledger.free(R, IDS) == [id for id in IDS if id not in owners]
        assert {key.id for key in self.ledger.allocated()} == {id for ids in self.held.values() for id in ids}
        assert sum(len(held_by(item.allocation)) for item in self.ledger.pods.values()) <= len(IDS)

    @invariant()
    def a_restart_finds_the_same(self) -> None:
        again = Ledger(self.ledger.pods.values())
        assert again.pods == self.ledger.pods
        assert set(again.owners) == set(self.ledger.allocated())


TestLedger = LedgerStory.TestCase
TestLedger.settings = settings(stateful_step_count=30)


@given(st.dictionaries(st.sampled_from(IDS), NUMA, min_size=1), st.data())
def test_choice_is_exact_deterministic_and_packed(numa: dict[str, tuple[int, ...]], data: st.DataObject) -> None:
    need = data.draw(st.integers(0, len(numa)))
    chosen = choose(need, sorted(numa), numa)
    assert len(chosen) == len(set(chosen)) == need
    assert chosen == choose(need, sorted(numa, reverse=True), numa)
    homes = {id: nodes[0] if nodes else -1 for id, nodes in numa.items()}
    if any(list(homes.values()).count(node) >= need for node in homes.values()):
        assert len({homes[id] for id in chosen}) <= 1


@given(st.lists(st.sampled_from([*IDS, "alien"])), st.integers(0, 6), st.lists(st.sampled_from(IDS), unique=True))
def test_preference_never_leaves_what_is_free(preferred: list[str], need: int, available: list[str]) -> None:
    kept = follow_preference(preferred, ["d0"], need, available)
    assert len(kept) == len(set(kept)) <= need
    assert set(kept) <= set(available) - {"d0"}


def test_init_devices_go_on_to_sidecar_or_app() -> None:
    kinds = (("app", "app"), ("init", "init"), ("side", "sidecar"))
    pod = AdmitPod("u", "default", "p", tuple(ContainerRequest(name, kind, {R: 1}) for name, kind in kinds))
    plan, fresh = PodPlan(), iter(IDS)
    for container, resource, count in steps(pod):
        reused = plan.reuse(resource, count)
        plan.take(container, resource, reused or [next(fresh)])
    assert plan.chosen == {"init": {R: ["d0"]}, "side": {R: ["d0"]}, "app": {R: ["d1"]}}
    assert plan.keys() == {DeviceKey(R, "d0"), DeviceKey(R, "d1")}


class InventoryStory(RuleBasedStateMachine):
    """Up to three plugins of one resource: only the newest that has reported counts."""

    def __init__(self) -> None:
        super().__init__()
        self.inventory = Inventory([R])
        self.generations: list[int] = []
        self.serving = 0
        self.connected = self.grace = False
        self.devices: dict[str, bool] = {}

    @rule()
    def register(self) -> None:
        self.generations.append(self.inventory.register(R))

    @rule(which=st.integers(0, 5), devices=st.dictionaries(st.sampled_from(IDS), st.booleans()))
    def report(self, which: int, devices: dict[str, bool]) -> None:
        if not self.generations:
            return
        generation = self.generations[which % len(self.generations)]
        listed = [PluginDevice(id, healthy) for id, healthy in devices.items()]
        changed = self.inventory.report(R, generation, PluginOptions(), listed)
        if generation < self.serving and self.connected:
            assert not changed
            return
        self.serving, self.connected, self.devices, self.grace = generation, True, devices, False

    @rule(which=st.integers(0, 5))
    def disconnect(self, which: int) -> None:
        if self.generations:
            generation = self.generations[which % len(self.generations)]
            ours = self.connected and generation == self.serving
            begins = ours or not (self.connected or self.grace)
            assert self.inventory.disconnect(R, generation, 0.0) is begins
            self.connected, self.grace = self.connected and not ours, self.grace or begins

    @rule(over=st.booleans())
    def time_passes(self, over: bool) -> None:
        gone = self.inventory.expire(300.0 if over else 299.0, 300.0)
        if gone:
            assert over
            assert not self.connected
            self.devices, self.grace = {}, False

    @invariant()
    def the_view_is_the_newest_report(self) -> None:
        view = self.inventory.view(R)
        assert [device.id for device in view.devices] == sorted(self.devices)
        assert view.connected is self.connected
        healthy = sorted(id for id, well in self.devices.items() if well and self.connected)
        assert self.inventory.healthy(R) == healthy
        if not self.connected:
            assert {device.health for device in view.devices} <= {UNKNOWN}


TestInventory = InventoryStory.TestCase
TestInventory.settings = settings(stateful_step_count=25)

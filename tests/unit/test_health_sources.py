from actors.health.sources import Sources
from protocols.bus import Event, Op
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, DeviceHealth, PodAllocation
from protocols.messages.held import HeldContainer, HeldResource, PodHeld, held_by
from protocols.messages.podworker import EndedPod

GPU = "example.com/gpu"
HELD = PodHeld((HeldContainer("a", (HeldResource(GPU, ("g1",)),)),))
MORE = PodHeld(
    (HeldContainer("side", (HeldResource(GPU, ("g1",)),), sidecar=True),), (HeldResource("claim:c", ("d",)),)
)


class Told:
    """Sources fed by hand, as the bus would."""

    def __init__(self):
        self.pods, self.keys = [], []
        self.sources = Sources(self.pods.append, self.keys.append)

    def allocated(self, *ids, uid="u1"):
        devices = tuple(AllocatedDevice(GPU, one) for one in ids)
        pod = PodAllocation(uid, "ns", "p", (ContainerAllocation("a", devices=devices),))
        self.sources._allocations.on_event(Event(Op.UPSERT, uid, pod))

    def released(self, uid="u1"):
        self.sources._allocations.on_event(Event(Op.DELETE, uid, None))

    def ended(self, held, uid="u1"):
        self.sources._ended.on_event(Event(Op.UPSERT, uid, EndedPod(uid, "ns", "p", held)))

    def gone(self, uid="u1"):
        self.sources._ended.on_event(Event(Op.DELETE, uid, None))


def test_a_pod_is_known_from_its_allocation_to_its_end():
    told = Told()
    told.allocated()
    assert told.pods == []
    told.allocated("g1")
    assert told.sources.held == {"u1": HELD}
    assert told.sources.field_path("u1", "a") == "spec.containers{a}"
    told.released()
    assert told.sources.held == {}
    assert told.pods == ["u1", "u1"]
    assert told.sources.pod("u1") is None


def test_what_a_pod_held_at_its_end_outlives_its_allocation():
    told = Told()
    told.allocated("g1")
    told.ended(MORE)
    told.released()
    assert told.sources.held == {"u1": MORE}
    assert told.sources.ended("u1")
    assert told.sources.pod("u1").name == "p"
    assert told.sources.field_path("u1", "side") == "spec.initContainers{side}"
    assert told.sources.field_path("u1", "") == ""
    told.gone()
    assert told.sources.held == {}


def test_a_new_life_of_podworker_that_has_not_told_yet_changes_only_what_it_told():
    told = Told()
    told.allocated("g1")
    told.allocated("g2", uid="u2")
    told.released("u2")
    told.ended(HELD, "u2")
    told.sources._ended.on_snapshot([], 0)
    assert told.sources.held == {"u1": HELD}
    told.ended(HELD, "u2")
    assert set(told.sources.held) == {"u1", "u2"}


def test_an_allocation_that_says_the_same_is_no_news():
    told = Told()
    told.allocated("g1")
    told.allocated("g1")
    told.ended(HELD)
    assert told.pods == ["u1"]


def test_plugins_and_drivers_are_looked_up_alike():
    told = Told()
    told.sources._plugins.on_event(Event(Op.UPSERT, f"{GPU} g1", DeviceHealth(GPU, "g1", "Healthy")))
    told.sources._drivers.on_event(Event(Op.UPSERT, "d/p/x", DeviceHealth("", "d/p/x", "Unhealthy", "burnt")))
    assert told.keys == [f"{GPU} g1", "d/p/x"]
    assert told.sources.health["d/p/x"].message == "burnt"
    told.sources._drivers.on_event(Event(Op.DELETE, "d/p/x", None))
    assert "d/p/x" not in told.sources.health
    assert held_by(PodAllocation("u", "ns", "p")) == PodHeld()

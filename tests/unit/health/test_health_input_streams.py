from actors.health.input_streams import InputStreams
from protocols.bus import Event, Op
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, DeviceHealth, PodAllocation
from protocols.messages.health import HeldContainer, HeldResource, PodHeld, held_by
from protocols.messages.podworker import EndedPod, InitializingPod

GPU = "example.com/gpu"
HELD = PodHeld((HeldContainer("a", (HeldResource(GPU, ("g1",)),)),))
MORE = PodHeld((HeldContainer("side", (HeldResource(GPU, ("g1",)),), init=True),), (HeldResource("claim:c", ("d",)),))


class Streams:
    """Input streams fed by hand instead of by the bus."""

    def __init__(self) -> None:
        self.pods, self.keys = list[str](), list[str]()
        self.inputs = InputStreams(self.pods.append, self.keys.append)

    def allocated(self, *ids: str, uid: str = "u1") -> None:
        devices = tuple(AllocatedDevice(GPU, one) for one in ids)
        pod = PodAllocation(uid, "ns", "p", (ContainerAllocation("a", devices=devices),))
        self.inputs._allocations.on_event(Event(Op.UPSERT, uid, pod))

    def released(self, uid: str = "u1") -> None:
        self.inputs._allocations.on_event(Event(Op.DELETE, uid, None))

    def ended(self, held: PodHeld, uid: str = "u1") -> None:
        self.inputs._ended_pods.on_event(Event(Op.UPSERT, uid, EndedPod(uid, "ns", "p", held)))

    def gone(self, uid: str = "u1") -> None:
        self.inputs._ended_pods.on_event(Event(Op.DELETE, uid, None))


def test_held_follows_allocation_until_release() -> None:
    streams = Streams()
    streams.allocated()
    assert streams.pods == []
    streams.allocated("g1")
    assert streams.inputs.held == {"u1": HELD}
    assert streams.inputs.field_path("u1", "a") == "spec.containers{a}"
    streams.released()
    assert streams.inputs.held == {}
    assert streams.pods == ["u1", "u1"]
    assert streams.inputs.pod("u1") is None


def test_held_of_finished_pod_outlives_allocation() -> None:
    streams = Streams()
    streams.allocated("g1")
    streams.ended(MORE)
    streams.released()
    assert streams.inputs.held == {"u1": MORE}
    assert streams.inputs.pod_finished("u1")
    assert getattr(streams.inputs.pod("u1"), "name", "") == "p"
    assert streams.inputs.field_path("u1", "side") == "spec.initContainers{side}"
    assert streams.inputs.field_path("u1", "") == ""
    streams.gone()
    assert streams.inputs.held == {}


def test_held_after_podworker_restart_keeps_allocations() -> None:
    streams = Streams()
    streams.allocated("g1")
    streams.allocated("g2", uid="u2")
    streams.released("u2")
    streams.ended(HELD, "u2")
    streams.inputs._ended_pods.on_snapshot([], 0)
    assert streams.inputs.held == {"u1": HELD}
    streams.ended(HELD, "u2")
    assert set(streams.inputs.held) == {"u1", "u2"}


def test_held_has_init_container_until_podworker_reports_its_end() -> None:
    streams = Streams()
    devices = (AllocatedDevice(GPU, "g1"),)
    pod = PodAllocation("u1", "ns", "p", (ContainerAllocation("fetch", "init", devices),))
    streams.inputs._allocations.on_event(Event(Op.UPSERT, "u1", pod))
    assert streams.inputs.held == {}
    initializing = InitializingPod("u1", ("fetch",))
    streams.inputs._initializing.on_event(Event(Op.UPSERT, "u1", initializing))
    assert streams.inputs.held == {"u1": PodHeld((HeldContainer("fetch", (HeldResource(GPU, ("g1",)),), init=True),))}
    assert streams.inputs.field_path("u1", "fetch") == "spec.initContainers{fetch}"
    streams.inputs._initializing.on_event(Event(Op.DELETE, "u1", None))
    assert streams.inputs.held == {}
    assert streams.pods == ["u1", "u1"]


def test_held_unchanged_allocation_is_not_reported() -> None:
    streams = Streams()
    streams.allocated("g1")
    streams.allocated("g1")
    streams.ended(HELD)
    assert streams.pods == ["u1"]


def test_health_joins_plugins_and_drivers() -> None:
    streams = Streams()
    streams.inputs._plugin_health.on_event(Event(Op.UPSERT, f"{GPU} g1", DeviceHealth(GPU, "g1", "Healthy")))
    streams.inputs._driver_health.on_event(Event(Op.UPSERT, "d/p/x", DeviceHealth("", "d/p/x", "Unhealthy", "burnt")))
    assert streams.keys == [f"{GPU} g1", "d/p/x"]
    assert streams.inputs.health["d/p/x"].message == "burnt"
    streams.inputs._driver_health.on_event(Event(Op.DELETE, "d/p/x", None))
    assert "d/p/x" not in streams.inputs.health
    assert held_by(PodAllocation("u", "ns", "p")) == PodHeld()

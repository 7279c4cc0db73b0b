import itertools

import hypothesis.strategies as st
from hypothesis import given, settings

from actors.health.aggregate import pod_status
from actors.health.board import Board
from actors.health.pacer import BURST, Pacer
from protocols.messages.devices import DeviceHealth
from protocols.messages.held import HeldContainer, HeldResource, PodHeld, health_key

GPU, CLAIM = "example.com/gpu", "claim:c"
DEVICES = [(GPU, "g1"), (GPU, "g2"), (CLAIM, "drv/p/d")]
RATE = 2.0


def holds(*devices):
    resources = tuple(
        HeldResource(name, tuple(sorted(one for _, one in group)))
        for name, group in itertools.groupby(sorted(devices), key=lambda device: device[0])
    )
    return PodHeld((HeldContainer("a", resources),)) if resources else PodHeld()


class Node:
    """The board with what feeds it."""

    def __init__(self):
        self.held, self.known = {}, {}
        self.board = Board(self.held, self.known, RATE)
        self.now, self.reports = 100.0, 0

    def give(self, uid, *devices):
        self.held[uid] = holds(*devices)
        if not devices:
            del self.held[uid]
        self.board.held_changed(uid)

    def say(self, device, state):
        self.reports += 1
        key = health_key(*device)
        self.known[key] = DeviceHealth(*device, state, changed_ns=self.reports)
        self.board.health_changed(key)

    def settle(self):
        return self.board.settle(self.now)

    def truth(self):
        return {uid: pod_status(uid, held, self.known) for uid, held in self.held.items()}

    def shows(self):
        return {uid: (status.containers, status.pod) for uid, status in self.board.published.items()}

    def quiet(self):
        """Let all that waits have its time."""
        self.settle()
        while (due := self.board.next_due()) is not None:
            assert due > self.now
            self.now = due
            self.settle()


def test_a_flap_within_one_turn_is_nothing():
    node = Node()
    node.say(DEVICES[0], "Healthy")
    node.give("u1", DEVICES[0])
    node.settle()
    node.say(DEVICES[0], "Unhealthy")
    node.say(DEVICES[0], "Healthy")
    assert node.settle() == {}


def test_a_flapping_device_costs_its_rate_and_ends_with_the_truth():
    node, writes = Node(), 0
    node.give("u1", DEVICES[0])
    for tick in range(1000):
        node.now += 0.01
        node.say(DEVICES[0], "Unhealthy" if tick % 2 else "Healthy")
        writes += len(node.settle())
    assert writes <= BURST + 10 * RATE + 1
    assert node.board.put_off > 900
    node.quiet()
    assert node.shows()["u1"][0]["a"][0].resources[0].health == "Unhealthy"


def test_a_pod_that_waits_keeps_no_other_waiting():
    node = Node()
    node.give("u1", DEVICES[0])
    node.give("u2", DEVICES[1])
    for tick in range(20):
        node.say(DEVICES[0], "Unhealthy" if tick % 2 else "Healthy")
        node.settle()
    node.say(DEVICES[1], "Unhealthy")
    assert list(node.settle()) == ["u2"]


def test_other_devices_are_told_of_at_once_and_the_end_too():
    node = Node()
    node.give("u1", DEVICES[0])
    for tick in range(20):
        node.say(DEVICES[0], "Unhealthy" if tick % 2 else "Healthy")
        node.settle()
    node.give("u1", DEVICES[0], DEVICES[2])
    assert node.settle()["u1"] is not None
    node.give("u1")
    assert node.settle() == {"u1": None}
    assert node.board.next_due() is None
    assert node.board.published == {}


def test_the_oldest_report_that_is_shown_first_is_named():
    node = Node()
    node.say(DEVICES[0], "Healthy")
    node.say(DEVICES[1], "Healthy")
    node.give("u1", *DEVICES)
    assert node.settle()["u1"].reported_ns == 0
    node.say(DEVICES[0], "Unhealthy")
    node.say(DEVICES[2], "Unhealthy")
    assert node.settle()["u1"].reported_ns == 3


def test_devices_nobody_owns_cost_nothing():
    node = Node()
    node.give("u1", DEVICES[0])
    node.settle()
    for n in range(100_000):
        node.board.health_changed(f"{GPU} other-{n}")
    assert node.settle() == {}


def test_pods_that_go_leave_nothing_in_the_pacer():
    pacer = Pacer(RATE)
    for n in range(100):
        pacer.take(f"u{n}", 0.0)
        pacer.forget(f"u{n}")
    assert len(pacer) == 0


uids = st.sampled_from(["u1", "u2", "u3"])
steps = st.one_of(
    st.tuples(st.just("give"), uids, st.lists(st.sampled_from(DEVICES), unique=True, max_size=3)),
    st.tuples(st.just("say"), st.sampled_from(DEVICES), st.sampled_from(["Healthy", "Unhealthy", "Unknown", "?"])),
    st.tuples(st.just("forget"), st.sampled_from(DEVICES)),
    st.tuples(st.just("settle"), st.floats(0, 1)),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(steps, max_size=40))
def test_incremental_ends_as_computed_anew_and_nothing_is_published_twice(life):
    node, seen, writes, begun = Node(), {}, {}, 100.0
    for step in life:
        match step:
            case ("give", uid, devices):
                node.give(uid, *devices)
                writes.pop(uid, None)
            case ("say", device, state):
                node.say(device, state)
            case ("forget", device):
                node.known.pop(health_key(*device), None)
                node.board.health_changed(health_key(*device))
            case ("settle", seconds):
                node.now += seconds
                for uid, status in node.settle().items():
                    told = None if status is None else (status.containers, status.pod)
                    assert uid not in seen or seen[uid] != told
                    seen[uid] = told
                    writes[uid] = writes.get(uid, 0) + 1
                    assert writes[uid] <= BURST + 1 + (node.now - begun) * RATE
                assert set(node.board.published) == set(node.held)
    node.quiet()
    assert node.shows() == {uid: (status.containers, status.pod) for uid, status in node.truth().items()}

"""A model of devices, health, podworker and the API: any order of reports, pod ends and kills converges.

The code under test is real (InputStreams, StatusTable, the entries of a pod status). The bus and the API between them
are reduced to what they guarantee: a stream eventually brings its follower to the owner's state.
"""

import hypothesis.strategies as st
from hypothesis import example, given

from actors.health.input_streams import InputStreams
from actors.health.status_table import StatusTable
from actors.podworker.pods.status.device_health import HEALTH, Retention, health_entries, held_in, merged, unknown
from protocols.bus import Replica
from protocols.messages.devices import (
    AllocatedDevice,
    ClaimDevice,
    ContainerAllocation,
    DeviceHealth,
    PodAllocation,
    PreparedClaim,
)
from protocols.messages.health import PodHeld, health_key, held_by
from protocols.messages.podworker import EndedPod

GPU, CLAIM, DRIVER = "example.com/gpu", "claim:c", "drv"
IDS = {"u1": ((GPU, "g1"), (CLAIM, "drv/p/d1")), "u2": ((GPU, "g2"),), "u3": ((CLAIM, "drv/p/d1"), (GPU, "g3"))}
DEVICES = sorted({device for held in IDS.values() for device in held})


def allocation(uid):
    gpus = tuple(AllocatedDevice(GPU, one) for name, one in IDS[uid] if name == GPU)
    devices = tuple(ClaimDevice(*one.split("/")) for name, one in IDS[uid] if name == CLAIM)
    claims = (PreparedClaim("ns", "c", "c-uid", devices, ("c",)),) if devices else ()
    return PodAllocation(uid, "ns", uid, (ContainerAllocation("a", devices=gpus, claims=claims),))


def bring(replica, state):
    replica.on_snapshot(list(state.items()), 0)


class HealthProcess:
    """Silent until it has heard everybody, as the actor is."""

    def __init__(self, node):
        self.node = node
        self.inputs = InputStreams(self._held, self._health)
        self.table = StatusTable(self.inputs.held, self.inputs.health, 2, self.inputs.pod_finished)
        self.begun = False

    def _held(self, uid):
        self.table.held_changed(uid)

    def _health(self, key):
        self.table.health_changed(key)

    def hear(self, stream):
        node, inputs = self.node, self.inputs
        if stream == "health":
            bring(inputs._plugin_health, {key: value for key, value in node.health.items() if " " in key})
            bring(inputs._driver_health, {key: value for key, value in node.health.items() if " " not in key})
        elif stream == "allocations":
            bring(inputs._allocations, node.allocations)
        else:
            bring(inputs._ended_pods, node.podworker.ended)

    def settle(self):
        if not self.begun:
            for stream in ("health", "allocations", "ended"):
                self.hear(stream)
            self.begun = True
        self.table.refresh(self.node.now)


class Podworker:
    def __init__(self, node):
        self.node, self.heard = node, False
        self.resources, self.ended, self.held, self.written = Replica(), {}, {}, set()
        self.asked, self.ending = set(), set()

    def hear(self):
        if self.node.healthy.begun:
            bring(self.resources, self.node.healthy.table.published)
            self.heard = True

    def look(self, uid):
        """In each life a pod is looked at as one that should run before it is looked at as one that is over."""
        node, ending, over = self.node, uid in self.ending, uid in self.node.over
        if ending and not self.held.get(uid) and uid in node.allocations:
            self.held[uid] = held_by(node.allocations[uid])
        known = node.api[uid]["containerStatuses"][0]
        status = self.resources.items.get(uid)
        told = status.containers.get("a", ()) if status else ()
        had = self.held.get(uid, PodHeld()) if ending else PodHeld()
        resources = had.containers[0].resources if had.containers else ()
        entries = health_entries(told or unknown(resources), known, self.keep(uid, over, status))
        node.api[uid] = {"containerStatuses": [{"name": "a", HEALTH: entries}]}
        if over and not ending:
            self.ending.add(uid)
        elif ending:
            self.written.add(uid)
            if uid not in node.allocations:
                held = merged(self.held.get(uid, PodHeld()), held_in(node.api[uid]))
                self.ended[uid] = EndedPod(uid, "ns", uid, held)
        elif uid in node.allocations:
            self.asked.add(uid)

    def keep(self, uid, over, status):
        """`over`: a pod killed for its deadline is, and its containers do not show it."""
        ended = uid in self.ending or (over and not self.node.doomed)
        if not self.heard or (ended and status is None):
            return Retention.KNOWN
        if ended:
            return Retention.UNREPORTED
        return Retention.NOTHING if uid in self.asked else Retention.UNREPORTED

    def release(self, uid):
        """Only what was written down before, by this very life."""
        if uid in self.written:
            self.node.allocations.pop(uid, None)


class Node:
    def __init__(self, doomed):
        self.now, self.doomed = 100.0, doomed
        self.health, self.over = {}, set()
        self.allocations = {uid: allocation(uid) for uid in IDS}
        self.api = {uid: {"containerStatuses": [{"name": "a"}]} for uid in IDS}
        self.healthy, self.podworker = HealthProcess(self), Podworker(self)

    def say(self, device, state):
        key = health_key(*device)
        if state:
            self.health[key] = DeviceHealth("", device[1], state)
        else:
            self.health.pop(key, None)

    def rest(self):
        """Nobody dies any more, and all that is under way arrives."""
        for _ in range(4):
            for stream in ("health", "allocations", "ended"):
                self.healthy.hear(stream)
            self.now += 10
            self.healthy.settle()
            self.podworker.hear()
            for uid in IDS:
                self.podworker.look(uid)
                self.podworker.release(uid)

    def shown(self, uid):
        entries = self.api[uid]["containerStatuses"][0].get(HEALTH, [])
        return {
            (entry["name"], device["resourceID"]): device["health"]
            for entry in entries
            for device in entry["resources"]
        }


uids = st.sampled_from(sorted(IDS))
steps = st.one_of(
    st.tuples(st.just("say"), st.sampled_from(DEVICES), st.sampled_from(["Healthy", "Unhealthy", "Unknown", ""])),
    st.tuples(st.just("hear"), st.sampled_from(["health", "allocations", "ended"])),
    st.tuples(st.sampled_from(["look", "release", "end"]), uids),
    st.tuples(st.sampled_from(["settle", "tell", "kill health", "kill podworker"])),
)


def freed_then_killed(uid):
    """Whoever freed the devices dies before saying that the pod is over."""
    hear = [("hear", stream) for stream in ("health", "allocations", "ended")]
    end = [("end", uid), ("look", uid), ("look", uid), ("release", uid)]
    return [("settle",), ("tell",), ("look", uid), *end, *hear, ("settle",), ("kill podworker",), ("tell",)]


@example([*freed_then_killed("u1"), ("look", "u1")], False)
@example([*freed_then_killed("u1"), ("look", "u1")], True)
@given(st.lists(steps, max_size=60), st.booleans())
def test_any_order_of_reports_ends_and_kills_comes_to_the_truth(life, doomed):
    node = Node(doomed)
    for step in life:
        match step:
            case ("say", device, state):
                node.say(device, state)
            case ("hear", stream):
                node.healthy.hear(stream)
            case ("look", uid):
                node.podworker.look(uid)
            case ("release", uid):
                node.podworker.release(uid)
            case ("end", uid):
                node.over.add(uid)
            case ("settle",):
                node.now += 0.3
                node.healthy.settle()
            case ("tell",):
                node.podworker.hear()
            case ("kill health",):
                node.healthy = HealthProcess(node)
            case ("kill podworker",):
                node.podworker = Podworker(node)
    node.rest()
    for uid, devices in IDS.items():
        shown = node.shown(uid)
        assert set(shown) == set(devices)
        for device in devices:
            state = node.health.get(health_key(*device))
            assert shown[device] == (state.health if state else "Unknown"), "also of a pod that is over"

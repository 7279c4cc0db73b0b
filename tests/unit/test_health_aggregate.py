import hypothesis.strategies as st
from hypothesis import given, settings

from actors.health.aggregate import health_key, pod_status
from actors.health.board import Board
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, DeviceHealth, PodAllocation

GPU, NIC = "example.com/gpu", "example.com/nic"


def allocation(*containers, uid="u1"):
    return PodAllocation(uid=uid, namespace="ns", name="p", containers=tuple(containers))


def holds(name, *devices, kind="app"):
    return ContainerAllocation(name=name, kind=kind, devices=tuple(AllocatedDevice(r, i) for r, i in devices))


def health(*entries):
    return {health_key(r, i): DeviceHealth(r, i, state, message) for r, i, state, message in entries}


def test_sorted_by_resource_then_id_for_apps_and_sidecars():
    pod = allocation(
        holds("a", (NIC, "n1"), (GPU, "g2"), (GPU, "g1")),
        holds("init", (GPU, "g1"), kind="init"),
        holds("side", (GPU, "g3"), kind="sidecar"),
        holds("none"),
    )
    known = health((GPU, "g1", "Healthy", ""), (GPU, "g2", "Unhealthy", "ECC"), (NIC, "n1", "Healthy", ""))
    status = pod_status(pod, known)
    assert list(status.containers) == ["a", "side"]
    assert [(e.name, [(d.resourceID, d.health, d.message) for d in e.resources]) for e in status.containers["a"]] == [
        (GPU, [("g1", "Healthy", ""), ("g2", "Unhealthy", "ECC")]),
        (NIC, [("n1", "Healthy", "")]),
    ]
    assert status.containers["side"][0].resources[0].health == "Unknown"


def test_no_devices_no_status():
    assert pod_status(allocation(holds("a")), {}) is None


def test_overlong_message_is_cut():
    status = pod_status(allocation(holds("a", (GPU, "g1"))), health((GPU, "g1", "Unhealthy", "x" * 5000)))
    assert len(status.containers["a"][0].resources[0].message) == 1024


pods = st.sampled_from(["u1", "u2", "u3"])
devices = st.lists(st.sampled_from([(GPU, "g1"), (GPU, "g2"), (NIC, "n1")]), unique=True, max_size=3)
steps = st.one_of(
    st.tuples(st.just("give"), pods, devices),
    st.tuples(st.just("take"), pods),
    st.tuples(st.just("health"), st.sampled_from([(GPU, "g1"), (GPU, "g2"), (NIC, "n1")]), st.sampled_from("HUX")),
    st.tuples(st.just("settle")),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(steps, max_size=30))
def test_incremental_equals_computed_anew_and_nothing_is_published_twice(life):
    given_out, known, seen = {}, {}, {}
    board = Board(given_out, known)
    for step in [*life, ("settle",)]:
        match step:
            case ("give", uid, held):
                given_out[uid] = allocation(holds("a", *held), uid=uid)
                board.allocation_changed(uid, given_out[uid])
            case ("take", uid):
                given_out.pop(uid, None)
                board.allocation_changed(uid, None)
            case ("health", (resource, device_id), state):
                known[health_key(resource, device_id)] = DeviceHealth(resource, device_id, state)
                board.health_changed(health_key(resource, device_id))
            case _:
                for uid, status in board.settle().items():
                    assert seen.get(uid) != status
                    seen[uid] = status
                anew = {uid: pod_status(pod, known) for uid, pod in given_out.items()}
                assert board.published == {uid: status for uid, status in anew.items() if status}

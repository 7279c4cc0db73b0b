"""The adopt mode's pure parts: steps between two pictures of kubelet, names of pods, and when to look."""

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.adopt.diff import Pods, held, steps, target, torn
from actors.adopt.identity import HOLD_S, Identities, Sandbox
from actors.adopt.schedule import ECHOES, GAP, Schedule
from actors.frontdoor.encoding import pod as shown
from protocols.messages.devices import AllocatedDevice, AllocatedMemory, ContainerAllocation, PodAllocation
from protocols.podresources import convert
from protocols.wire import podresources_v1_pb2 as v1

UIDS = ("u0", "u1", "u2", "u3")


def pod(uid: str, devices: tuple[int, ...] = (), cpus: tuple[int, ...] = (), memory: int = 0) -> PodAllocation:
    given = tuple(AllocatedDevice("example.com/gpu", f"g{number}") for number in devices)
    blocks = (AllocatedMemory("memory", memory, (0,)),) if memory else ()
    return PodAllocation(uid, "default", uid, (ContainerAllocation("main", devices=given, cpus=cpus, memory=blocks),))


@st.composite
def pictures(draw: st.DrawFn) -> dict[str, PodAllocation]:
    """Up to four pods that share five devices and three CPUs, each owned once at most."""
    owners = draw(st.lists(st.sampled_from([*UIDS, ""]), min_size=8, max_size=8))
    there = draw(st.sets(st.sampled_from(UIDS)))
    memory = draw(st.integers(0, 2))
    return {
        uid: pod(
            uid,
            tuple(number for number in range(5) if owners[number] == uid),
            tuple(number for number in range(3) if owners[5 + number] == uid),
            memory,
        )
        for uid in there
    }


@settings(max_examples=400, deadline=None)
@given(st.lists(pictures(), min_size=1, max_size=6), st.data())
def test_replay_gives_the_list_and_nothing_is_ever_in_two_pods(history: list[Pods], data: st.DataObject) -> None:
    view: dict[str, PodAllocation] = {}
    for listed in history:
        alive = data.draw(st.sets(st.sampled_from(UIDS)))
        wanted = target(view, listed, alive)
        for uid, kept in wanted.items():
            assert listed.get(uid, kept) == kept
        for step in steps(view, wanted):
            if step.allocation is None:
                del view[step.uid]
            else:
                assert view.get(step.uid) != step.allocation, "told without a change"
                view[step.uid] = step.allocation
            assert torn(view.values()) is None, step
        assert view == wanted
        assert {uid: view[uid] for uid in listed} == listed


def test_a_device_is_released_before_it_is_told_of_another_pod() -> None:
    told = steps({"a": pod("a", (1,))}, {"b": pod("b", (1,))})
    assert [(step.uid, step.allocation is None) for step in told] == [("a", True), ("b", False)]


def test_pods_that_swap_let_go_first() -> None:
    told = steps({"a": pod("a", (1,)), "b": pod("b", (2,))}, {"a": pod("a", (2,)), "b": pod("b", (1,))})
    assert len(told) == 3
    assert told[0].allocation is None


def test_a_kubelet_that_lists_nothing_yet_releases_nothing_that_runs() -> None:
    known = {"a": pod("a", (1,)), "b": pod("b", (2,))}
    assert target(known, {}, {"a"}) == {"a": known["a"]}
    assert target(known, {"c": pod("c", (1,))}, {"a", "b"}) == {"b": known["b"], "c": pod("c", (1,))}


def test_an_answer_that_was_put_together_during_a_change_is_known() -> None:
    assert torn([pod("a", (1,)), pod("b", (1, 2))]) == ("example.com/gpu", "g1")
    assert torn([pod("a", (1,), (0,)), pod("b", (2,), (1,))]) is None
    assert held(pod("a", (1,), (0,), memory=7)) == {("example.com/gpu", "g1"), ("cpu", "0")}


def sandbox(id: str, uid: str, created: int = 1, ready: bool = True, name: str = "p") -> Sandbox:
    return Sandbox(id, uid, "default", name, created, ready)


NAME = ("default", "p")


def test_a_pod_has_the_uid_of_its_newest_sandbox() -> None:
    known = Identities()
    assert known.uid_of(NAME, 0.0) is None
    assert known.waits
    known.seen(sandbox("s1", "u1", 1))
    assert known.uid_of(NAME, 0.1) == "u1"
    assert not known.waits
    known.seen(sandbox("s2", "u2", 2))
    known.seen(sandbox("s1", "u1", 1, ready=False))
    assert known.uid_of(NAME, 0.2) == "u2"
    assert (known.alive("u1", NAME), known.alive("u2", NAME)) == (False, True)
    known.replace([])
    assert known.uid_of(NAME, 0.3) == "u2", "a pod keeps its uid when its sandbox is collected"
    known.listed([])
    assert known.uid_of(NAME, 0.4) is None


def test_a_pod_without_a_sandbox_is_told_after_a_while_and_keeps_its_name() -> None:
    known = Identities()
    assert known.uid_of(NAME, 5.0) is None
    assert known.uid_of(NAME, 5.0 + HOLD_S) == "default/p"
    known.seen(sandbox("s1", "u1"))
    assert known.uid_of(NAME, 7.0) == "default/p"
    assert known.alive("default/p", NAME)
    known.listed([])
    assert known.uid_of(NAME, 8.0) == "u1"


def test_an_event_is_asked_about_at_once_and_again_with_growing_pauses() -> None:
    schedule, now, asked = Schedule(10.0, 2.0), 100.0, []
    schedule.streaming = True
    schedule.asked(now, True)
    assert schedule.due() == 110.0
    now = 101.0
    schedule.event(now)
    while schedule.due() < 107.0:
        now = max(now, schedule.due())
        asked.append(round(now - 101.0, 3))
        schedule.asked(now, True)
    assert asked == list(ECHOES)
    assert schedule.due() == 115.0


@given(st.lists(st.floats(0, 0.3), min_size=1, max_size=50))
def test_no_storm_of_events_asks_more_often_than_the_gap(pauses: list[float]) -> None:
    schedule, now, last = Schedule(10.0, 2.0), 5.0, -1.0
    for pause in pauses:
        now += pause
        schedule.event(now)
        if schedule.due() <= now:
            assert now - last >= GAP - 1e-9
            schedule.asked(now, True)
            last = now


def test_failures_are_asked_again_with_growing_pauses_and_without_events_it_polls() -> None:
    schedule, now, pauses = Schedule(10.0, 2.0), 1.0, []
    for _ in range(9):
        schedule.asked(now, False)
        pauses.append(round(schedule.due() - now, 6))
        now = schedule.due()
    assert pauses == sorted(pauses)
    assert pauses[-1] == 5.0
    schedule.asked(now, True)
    assert schedule.due() == now + 2.0


def test_what_kubelet_lists_is_what_is_listed() -> None:
    """Field by field, also a device on two NUMA nodes, claims and what belongs to the pod as a whole."""

    def devices(id: str, *nodes: int | None) -> list[v1.ContainerDevices]:
        def topology(node: int | None) -> v1.TopologyInfo | None:
            return None if node is None else v1.TopologyInfo(nodes=[v1.NUMANode(ID=node)])

        make = v1.ContainerDevices
        return [make(resource_name="r/x", device_ids=[id], topology=topology(node)) for node in nodes]

    claim = v1.ClaimResource(
        cdi_devices=[v1.CDIDevice(name="v/c=0")], driver_name="d", pool_name="p", device_name="n", share_id="s"
    )
    block = v1.ContainerMemory(memory_type="memory", size=5, topology=v1.TopologyInfo(nodes=[v1.NUMANode(ID=0)]))
    container = v1.ContainerResources(
        name="main",
        devices=[*devices("a", 0, 1), *devices("b", None)],
        cpu_ids=[1, 2],
        memory=[block],
        dynamic_resources=[v1.DynamicResource(claim_name="c", claim_namespace="default", claim_resources=[claim])],
    )
    listed = v1.PodResources(
        name="p", namespace="default", containers=[container, v1.ContainerResources(name="bare")], cpu_ids=[7]
    )
    assert shown(convert.pod(listed, "u")) == listed
    reply = v1.AllocatableResourcesResponse(devices=devices("a", 0, 1), cpu_ids=[2, 1], memory=[block])
    assert convert.machine(reply).cpus == (1, 2)
    assert [(key, device.numa) for key, device in convert.allocatable(reply).items()] == [("r/x a", (0, 1))]

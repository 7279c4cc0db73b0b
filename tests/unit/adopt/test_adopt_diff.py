"""Steps between two lists of kubelet, uids of pods, and the schedule of lists."""

from hypothesis import given
from hypothesis import strategies as st

from actors.adopt.allocation_diff import Pods, desired_pods, diff_steps, exclusive_resources, find_conflict
from actors.adopt.pod_identity import SANDBOX_WAIT_S, PodIdentities, Sandbox
from actors.adopt.reconciler import AFTER_EVENT_S, MIN_INTERVAL_S, ListSchedule
from actors.frontdoor.feeds.encoding import pod as shown
from protocols.messages.devices import AllocatedDevice, AllocatedMemory, ContainerAllocation, PodAllocation
from protocols.podresources import convert
from protocols.wire import podresources_v1_pb2 as v1

UIDS = ("u0", "u1", "u2", "u3")


def pod(uid: str, devices: tuple[int, ...] = (), cpus: tuple[int, ...] = (), memory: int = 0) -> PodAllocation:
    given = tuple(AllocatedDevice("example.com/gpu", f"g{number}") for number in devices)
    blocks = (AllocatedMemory("memory", memory, (0,)),) if memory else ()
    return PodAllocation(uid, "default", uid, (ContainerAllocation("main", devices=given, cpus=cpus, memory=blocks),))


@st.composite
def lists(draw: st.DrawFn) -> dict[str, PodAllocation]:
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


@given(st.lists(lists(), min_size=1, max_size=6), st.data())
def test_diff_steps_any_lists_fold_into_the_list_without_conflict(history: list[Pods], data: st.DataObject) -> None:
    view: dict[str, PodAllocation] = {}
    for listed in history:
        running = data.draw(st.sets(st.sampled_from(UIDS)))
        desired = desired_pods(view, listed, running)
        for uid, kept in desired.items():
            assert listed.get(uid, kept) == kept
        for step in diff_steps(view, desired):
            if step.allocation is None:
                del view[step.uid]
            else:
                assert view.get(step.uid) != step.allocation, "step without a change"
                view[step.uid] = step.allocation
            assert find_conflict(view.values()) is None, step
        assert view == desired
        assert {uid: view[uid] for uid in listed} == listed


def test_diff_steps_release_device_before_allocating_it() -> None:
    steps = diff_steps({"a": pod("a", (1,))}, {"b": pod("b", (1,))})
    assert [(step.uid, step.allocation is None) for step in steps] == [("a", True), ("b", False)]


def test_diff_steps_swapping_pods_release_first() -> None:
    steps = diff_steps({"a": pod("a", (1,)), "b": pod("b", (2,))}, {"a": pod("a", (2,)), "b": pod("b", (1,))})
    assert len(steps) == 3
    assert steps[0].allocation is None


def test_desired_pods_unlisted_running_pod_is_retained() -> None:
    known = {"a": pod("a", (1,)), "b": pod("b", (2,))}
    assert desired_pods(known, {}, {"a"}) == {"a": known["a"]}
    assert desired_pods(known, {"c": pod("c", (1,))}, {"a", "b"}) == {"b": known["b"], "c": pod("c", (1,))}


def test_find_conflict_device_in_two_pods() -> None:
    assert find_conflict([pod("a", (1,)), pod("b", (1, 2))]) == ("example.com/gpu", "g1")
    assert find_conflict([pod("a", (1,), (0,)), pod("b", (2,), (1,))]) is None
    assert exclusive_resources(pod("a", (1,), (0,), memory=7)) == {("example.com/gpu", "g1"), ("cpu", "0")}


def sandbox(id: str, uid: str, created: int = 1, ready: bool = True, name: str = "p") -> Sandbox:
    return Sandbox(id, uid, "default", name, created, ready)


NAME = ("default", "p")


def uid_of(known: PodIdentities, now: float) -> str | None:
    """Return the uid of one listed pod that holds nothing."""
    return known.identify([(NAME, frozenset())], now)[0]


def holding(*devices: str) -> tuple[tuple[str, str], frozenset[tuple[str, str]]]:
    return NAME, frozenset(("example.com/gpu", device) for device in devices)


def test_uid_of_is_uid_of_newest_ready_sandbox() -> None:
    known = PodIdentities()
    assert (uid_of(known, 0.0), known.waiting) == (None, True)
    known.add(sandbox("s1", "u1", 1))
    assert (uid_of(known, 0.1), known.waiting) == ("u1", False)
    known.add(sandbox("s2", "u2", 2))
    known.add(sandbox("s1", "u1", 1, ready=False))
    assert uid_of(known, 0.2) == "u2"
    assert (known.running("u1", NAME), known.running("u2", NAME)) == (False, True)
    known.identify([], 0.3)
    assert uid_of(known, 0.3) == "u2", "it runs: kubelet may have restarted"


def test_uid_of_recreated_pod_ignores_lingering_sandbox() -> None:
    known = PodIdentities()
    old = sandbox("s1", "u1", 5, ready=False)
    known.replace([old])
    assert uid_of(known, 0.0) is None
    known.replace([old, sandbox("s2", "u2", 4)])
    assert uid_of(known, 0.1) == "u2", "ready ones first, whatever the clock says"
    known.replace([old, sandbox("s2", "u2", 4, ready=False)])
    assert uid_of(known, 0.2) == "u2"
    known.identify([], 0.3)
    assert uid_of(known, 0.3) is None, "its end was seen"
    known.replace([old, sandbox("s2", "u2", 4, ready=False), sandbox("s3", "u3", 6)])
    assert uid_of(known, 0.4) == "u3"


def test_uid_of_replaced_sandbox_keeps_uid() -> None:
    known = PodIdentities()
    known.replace([sandbox("s1", "u1", 1)])
    assert uid_of(known, 0.0) == "u1"
    known.replace([sandbox("s1", "u1", 1, ready=False)])
    assert uid_of(known, 0.1) == "u1"
    known.replace([sandbox("s1", "u1", 1, ready=False), sandbox("s2", "u1", 2)])
    assert uid_of(known, 0.2) == "u1"


def test_uid_of_replaced_pod_never_returns_to_its_predecessor() -> None:
    known = PodIdentities()
    known.replace([sandbox("s1", "u1", 1)])
    assert uid_of(known, 0.0) == "u1"
    known.replace([sandbox("s1", "u1", 1), sandbox("s2", "u2", 2)])
    assert uid_of(known, 0.1) == "u2"
    known.replace([sandbox("s1", "u1", 1), sandbox("s2", "u2", 2, ready=False)])
    assert uid_of(known, 0.2) == "u2", "the old one was deleted by force and still runs"


def test_uid_of_uid_gone_from_runtime_is_forgotten() -> None:
    known = PodIdentities()
    known.restore([(NAME, "u1", frozenset())])
    assert uid_of(known, 0.0) == "u1"
    known.replace([])
    assert uid_of(known, 0.1) is None
    known.replace([sandbox("s2", "u2", 2)])
    assert uid_of(known, 0.2) == "u2"


def test_uid_of_without_sandbox_is_name_after_wait() -> None:
    known = PodIdentities()
    assert uid_of(known, 5.0) is None
    assert uid_of(known, 5.0 + SANDBOX_WAIT_S) == "default/p"
    known.add(sandbox("s1", "u1"))
    assert uid_of(known, 7.0) == "default/p"
    assert known.running("default/p", NAME)
    known.replace([sandbox("s1", "u1", ready=False), sandbox("s2", "u2", 2)])
    assert uid_of(known, 8.0) == "u2", "another pod has its name"


def test_identify_two_pods_of_one_name_by_what_they_hold() -> None:
    """A forced deletion and recreation: kubelet lists both until the old one has ended."""
    known, old, new = PodIdentities(), holding("g0"), holding("g1")
    known.replace([sandbox("s1", "u1", 1)])
    assert known.identify([old], 0.0) == ["u1"]
    assert known.identify([old, new], 0.1) == ["u1", None], "it waits for its sandbox"
    assert known.identify([new, old], 0.2) == [None, "u1"]
    assert known.identify([new], 0.3) == [None], "not the dead uid, though its sandbox is ready"
    known.replace([sandbox("s1", "u1", 1), sandbox("s2", "u2", 2)])
    assert known.identify([new, old], 0.4) == ["u2", "u1"]
    known.replace([sandbox("s1", "u1", 1, ready=False), sandbox("s2", "u2", 2)])
    assert known.identify([new], 0.5) == ["u2"]


def test_identify_second_pod_without_sandbox_is_name_after_wait() -> None:
    known, old, new = PodIdentities(), holding("g0"), holding("g1")
    known.replace([sandbox("s1", "u1", 1)])
    known.identify([old, new], 0.0)
    assert known.identify([old, new], SANDBOX_WAIT_S) == ["u1", "default/p"]
    assert known.identify([new], SANDBOX_WAIT_S + 1) == ["default/p"]


def test_identify_pod_that_holds_something_else_after_wait_is_itself() -> None:
    """Kubelet admitted it again, without its checkpoint."""
    known = PodIdentities()
    known.replace([sandbox("s1", "u1", 1)])
    assert known.identify([holding("g0")], 0.0) == ["u1"]
    assert known.identify([holding("g1")], 1.0) == [None]
    assert known.identify([holding("g1")], 1.0 + SANDBOX_WAIT_S) == ["u1"]


@given(st.lists(st.tuples(st.sampled_from(["create", "start", "end", "list"]), st.integers(0, 9)), max_size=40))
def test_identify_recreated_pods_never_have_the_uid_of_another(steps: list[tuple[str, int]]) -> None:
    known, live, boxes = PodIdentities(), dict[str, bool](), dict[str, Sandbox]()
    for number, (step, which) in enumerate(steps):
        if step == "create" and all(live.values()):
            live[f"u{number}"] = False
        elif step == "start" and live and not all(live.values()):
            uid = next(uid for uid, started in live.items() if not started)
            live[uid], boxes[uid] = True, sandbox(uid, uid, number)
        elif step == "end" and live:
            uid = sorted(live)[which % len(live)]
            del live[uid]
            if uid in boxes:
                boxes[uid] = sandbox(uid, uid, number, ready=False)
        uids = sorted(live, key=lambda uid: hash((uid, which)))
        known.replace(boxes.values())
        found = known.identify([holding(uid) for uid in uids], number / 1000)
        assert found == [uid if live[uid] else None for uid in uids]


def test_schedule_event_lists_at_once_and_with_growing_pauses() -> None:
    schedule, now, listed_after = ListSchedule(10.0, 2.0), 100.0, []
    schedule.events_available = True
    schedule.listed(now, True)
    assert schedule.due() == 110.0
    now = 101.0
    schedule.event(now)
    while schedule.due() < 107.0:
        now = max(now, schedule.due())
        listed_after.append(round(now - 101.0, 3))
        schedule.listed(now, True)
    assert listed_after == list(AFTER_EVENT_S)
    assert schedule.due() == 115.0


@given(st.lists(st.floats(0, 0.3), min_size=1, max_size=50))
def test_schedule_many_events_keep_min_interval(pauses: list[float]) -> None:
    schedule, now, last = ListSchedule(10.0, 2.0), 5.0, -1.0
    for pause in pauses:
        now += pause
        schedule.event(now)
        if schedule.due() <= now:
            assert now - last >= MIN_INTERVAL_S - 1e-9
            schedule.listed(now, True)
            last = now


def test_schedule_failures_back_off_and_success_polls() -> None:
    schedule, now, pauses = ListSchedule(10.0, 2.0), 1.0, []
    for _ in range(9):
        schedule.listed(now, False)
        pauses.append(round(schedule.due() - now, 6))
        now = schedule.due()
    assert pauses == sorted(pauses)
    assert pauses[-1] == 5.0
    schedule.listed(now, True)
    assert schedule.due() == now + 2.0


def test_convert_pod_round_trips_kubelets_list() -> None:
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

"""Pods of a simulated node: their whole life in the statuses that the API would have."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.fleet.simulated.pod import Pod, packed
from protocols.lifecycle.pods.types import PodStage
from protocols.lifecycle.status.events import field_path
from protocols.messages.devices import UNHEALTHY
from protocols.messages.health import PodHeld
from tests.support.fleet_world import DRIVER, RESOURCE, FleetWorld, uid_of

ONE = {"resources": {"limits": {RESOURCE: "1"}}}


@pytest.fixture
def world() -> FleetWorld:
    return FleetWorld()


def condition(status: Any, kind: str) -> str:
    return next(str(each["status"]) for each in status["conditions"] if each["type"] == kind)


def test_pod_runs_at_once_and_ends_when_its_script_says_so(world: FleetWorld) -> None:
    pod = world.add("p", annotations={"nodeplane.dev/hollow-duration": "5s"}, restartPolicy="Never")
    shown = world.status(pod)
    assert (shown["phase"], condition(shown, "Ready"), shown["hostIP"]) == ("Running", "True", "172.16.0.0")
    world.advance(5)
    ended = world.status(pod)
    assert ended["phase"] == "Succeeded"
    assert ended["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_start_takes_the_time_of_the_profile(world: FleetWorld) -> None:
    world.start_s = 2.0
    pod = world.add("p")
    assert world.status(pod)["containerStatuses"][0]["state"]["waiting"]["reason"] == "ContainerCreating"
    world.advance(2)
    assert world.status(pod)["phase"] == "Running"


def test_init_containers_run_one_after_another(world: FleetWorld) -> None:
    inits = [{"name": "i1", "image": "x"}, {"name": "i2", "image": "x"}]
    pod = world.add("p", annotations={"nodeplane.dev/hollow-duration": "1s"}, initContainers=inits)
    waiting = [next(iter(status["state"])) for status in world.status(pod)["initContainerStatuses"]]
    assert waiting == ["running", "waiting"]
    world.advance(2)
    assert [status["ready"] for status in world.status(pod)["initContainerStatuses"]] == [True, True]
    assert "running" in world.status(pod)["containerStatuses"][0]["state"]


def test_init_containers_without_a_script_succeed_at_once(world: FleetWorld) -> None:
    sidecar = {"name": "s", "image": "x", "restartPolicy": "Always"}
    pod = world.add("p", initContainers=[{"name": "i", "image": "x"}, sidecar])
    first, second = world.status(pod)["initContainerStatuses"]
    assert first["state"]["terminated"]["exitCode"] == 0
    assert "running" in second["state"]
    assert condition(world.status(pod), "Ready") == "True"


@pytest.mark.parametrize("hollow", ["true", "false"])
def test_crashed_container_comes_again_with_back_off(world: FleetWorld, hollow: str) -> None:
    script = {"nodeplane.dev/hollow-duration": "1s", "nodeplane.dev/hollow-exit-code": "3"}
    pod = world.add("p", annotations={"nodeplane.dev/hollow": hollow, **script})
    world.advance(3)
    shown = world.status(pod)["containerStatuses"][0]
    assert shown["restartCount"] == 1
    assert shown["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert shown["lastState"]["terminated"]["exitCode"] == 3
    assert [event.reason for _, event in world.events] == ["BackOff"]
    world.advance(11)
    assert world.status(pod)["containerStatuses"][0]["restartCount"] == 2


def test_deleted_pod_ends_in_the_time_that_its_containers_take(world: FleetWorld) -> None:
    pod = world.add("p", ONE, annotations={"nodeplane.dev/hollow-stop": "5s"})
    world.delete(pod)
    world.advance(4.9)
    assert "running" in world.status(pod)["containerStatuses"][0]["state"]
    world.advance(0.2)
    assert world.deleted == ["p"]
    assert world.status(pod)["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
    assert world.node.devices.held(pod.uid) == PodHeld()


def test_container_that_does_not_end_is_killed_after_its_grace_period(world: FleetWorld) -> None:
    pod = world.add("p", annotations={"nodeplane.dev/hollow-stop": "1h"})
    world.delete(pod, grace=3)
    world.advance(3)
    assert world.deleted == ["p"]
    assert world.status(pod)["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 137


def test_devices_are_given_once_and_a_pod_without_any_left_is_rejected(world: FleetWorld) -> None:
    held = [world.add(f"p{n}", ONE) for n in range(5)]
    shown = [world.status(pod) for pod in held]
    ids = [
        one["resourceID"]
        for status in shown[:4]
        for entry in status["containerStatuses"][0]["allocatedResourcesStatus"]
        for one in entry["resources"]
    ]
    assert sorted(ids) == [f"gpu-{n}" for n in range(4)]
    assert (shown[4]["phase"], shown[4]["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert "Requested: 1, Available: 0" in shown[4]["message"]


def test_pod_with_an_unsafe_sysctl_is_rejected(world: FleetWorld) -> None:
    names = ("net.ipv4.tcp_rmem", "net.core.somaxconn")
    contexts = [{"sysctls": [{"name": name, "value": "1"}]} for name in names]
    safe, unsafe = (world.status(world.add(f"p{at}", ONE, securityContext=it)) for at, it in enumerate(contexts))
    assert (safe["phase"], unsafe["phase"], unsafe.get("reason")) == ("Running", "Failed", "SysctlForbidden")


def test_init_container_shows_its_devices_while_it_runs(world: FleetWorld) -> None:
    inits = [{"name": "i", "image": "x", **ONE}]
    pod = world.add("p", ONE, initContainers=inits, annotations={"nodeplane.dev/hollow-duration": "1s"})
    ((entry,),) = [status["allocatedResourcesStatus"] for status in world.status(pod)["initContainerStatuses"]]
    assert [one["resourceID"] for one in entry["resources"]] == ["gpu-0"]
    world.advance(1)
    assert "allocatedResourcesStatus" not in world.status(pod)["initContainerStatuses"][0]
    assert "allocatedResourcesStatus" in world.status(pod)["containerStatuses"][0]


def test_broken_device_shows_in_the_status_of_its_pod_and_in_an_event(world: FleetWorld) -> None:
    pod = world.add("p", ONE)
    ids = [f"gpu-{n}" for n in range(4)]
    world.node.devices.set_plugin_health(RESOURCE, ids, False, "too hot", world.now_ns)
    world.settle()
    (entry,) = world.status(pod)["containerStatuses"][0]["allocatedResourcesStatus"]
    assert entry["resources"] == [{"resourceID": "gpu-0", "health": UNHEALTHY, "message": "too hot"}]
    assert [event.reason for event in world.node.devices.events(world.now_ns / 1e9)] == ["DeviceUnhealthy"]
    assert world.node.status({}, "2027-01-15T08:00:00Z")["allocatable"][RESOURCE] == "0"


def claiming(world: FleetWorld, name: str = "p", *devices: str) -> Pod:
    world.claim("c", name, *devices)
    uses = {"resources": {"claims": [{"name": "gpu"}]}}
    return world.add(name, uses, resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])


def test_claim_shows_its_devices_and_their_health(world: FleetWorld) -> None:
    pod = claiming(world, "p", "gpu-1")
    id = f"{DRIVER}/gpu-0/gpu-1"
    (entry,) = world.status(pod)["containerStatuses"][0]["allocatedResourcesStatus"]
    assert entry == {"name": "claim:gpu/r", "resources": [{"resourceID": id, "health": "Healthy"}]}
    world.node.devices.connect_driver(DRIVER, False, world.now_ns)
    world.settle()
    (entry,) = world.status(pod)["containerStatuses"][0]["allocatedResourcesStatus"]
    assert entry["resources"] == [{"resourceID": id, "health": "Unknown", "message": "DRA driver is not connected"}]


def test_pod_waits_for_a_claim_that_is_not_its_own_yet(world: FleetWorld) -> None:
    pod = claiming(world, "p", "gpu-1")
    other = world.add("q", {}, resourceClaims=[{"name": "gpu", "resourceClaimName": "c"}])
    assert world.status(pod)["phase"] == "Running"
    assert world.status(other)["phase"] == "Pending"
    assert [event.reason for _, event in world.events] == ["FailedPrepareDynamicResources", "FailedSync"]
    assert all("is not allowed to use ResourceClaim c" in event.message for _, event in world.events)
    world.claims["c"]["status"]["reservedFor"].append({"uid": uid_of("q")})
    world.advance(3)
    assert world.status(other)["phase"] == "Running"


def test_pod_of_a_missing_driver_waits_for_it(world: FleetWorld) -> None:
    world.node.devices.connect_driver(DRIVER, False, world.now_ns)
    pod = claiming(world, "p", "gpu-1")
    assert world.status(pod)["phase"] == "Pending"
    world.node.devices.connect_driver(DRIVER, True, world.now_ns)
    world.advance(3)
    assert world.status(pod)["phase"] == "Running"


@pytest.mark.parametrize(
    ("notes", "ready"),
    [("ok", [False, True, True]), ("after 8s", [False, False, True]), ("until 8s", [False, True, False])],
)
def test_readiness_follows_the_annotation(world: FleetWorld, notes: str, ready: list[bool]) -> None:
    probe = {"httpGet": {"port": 80}, "initialDelaySeconds": 1, "periodSeconds": 2, "failureThreshold": 1}
    pod = world.add("p", {"readinessProbe": probe}, annotations={"nodeplane.dev/hollow-readiness": notes})
    found = []
    for seconds in (0.5, 5, 5):
        world.advance(seconds)
        found.append(world.status(pod)["containerStatuses"][0]["ready"])
    assert found == ready


def test_failing_liveness_restarts_the_container(world: FleetWorld) -> None:
    probe = {"exec": {"command": ["x"]}, "periodSeconds": 1, "failureThreshold": 3}
    pod = world.add("p", {"livenessProbe": probe}, annotations={"nodeplane.dev/hollow-liveness": "until 10s"})
    world.advance(9)
    assert world.status(pod)["containerStatuses"][0]["restartCount"] == 0
    world.advance(5)
    assert world.status(pod)["containerStatuses"][0]["restartCount"] == 1


@pytest.mark.parametrize("value", ["soon", "after", "until 5", "ok 3s", "after -1s", "9" * 400 + "s", "9" * 5000])
def test_annotation_that_says_nothing_is_an_error_of_the_container(world: FleetWorld, value: str) -> None:
    for number, name in enumerate(("readiness", "stop", "duration")):
        pod = world.add(f"p{number}", annotations={f"nodeplane.dev/hollow-{name}": value})
        waiting = world.status(pod)["containerStatuses"][0]["state"]["waiting"]
        assert waiting["reason"] == "CreateContainerError"
        world.delete(pod)
    assert not world.pods


def test_annotation_that_becomes_wrong_keeps_no_pod_from_its_end(world: FleetWorld) -> None:
    pod = world.add("p")
    world.change(pod, annotations={"nodeplane.dev/hollow-stop": "xyz"})
    world.delete(pod)
    assert world.deleted == ["p"]


def test_exit_code_of_many_digits_is_an_error_of_the_container(world: FleetWorld) -> None:
    pod = world.add("p", annotations={"nodeplane.dev/hollow-exit-code": "1" * 5000})
    waiting = world.status(pod)["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "CreateContainerError"


def resize(world: FleetWorld, pod: Pod, cpu: str) -> Any:
    """Let a pod want another amount of processors; return its status."""
    obj = world.obj(pod)
    obj["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
    pod.packed = packed(obj)
    world.settle()
    return world.status(pod)


def test_resize_is_actuated_at_once_where_there_is_room(world: FleetWorld) -> None:
    pod = world.add("p", {"resources": {"requests": {"cpu": "1"}}})
    assert resize(world, pod, "2")["containerStatuses"][0]["resources"]["requests"]["cpu"] == "2"
    assert condition(resize(world, pod, "999"), "PodResizePending") == "True"
    assert [event.reason for _, event in world.events] == ["ResizeStarted", "ResizeCompleted", "ResizeInfeasible"]


def test_resize_that_needs_a_restart_restarts_the_container(world: FleetWorld) -> None:
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    pod = world.add("p", {"resources": {"requests": {"cpu": "1"}}, "resizePolicy": policy})
    (shown,) = resize(world, pod, "2")["containerStatuses"]
    assert (shown["restartCount"], shown["resources"]["requests"]["cpu"]) == (1, "2")
    assert shown["lastState"]["terminated"]["exitCode"] == 143
    assert [event.reason for _, event in world.events] == ["ResizeStarted", "ResizeCompleted"]


def test_deferred_resize_is_tried_again_until_there_is_room(world: FleetWorld) -> None:
    other = world.add("q", {"resources": {"requests": {"cpu": "60"}}})
    pod = world.add("p", {"resources": {"requests": {"cpu": "1"}}})
    pending = next(each for each in resize(world, pod, "40")["conditions"] if each["type"] == "PodResizePending")
    assert pending["reason"] == "Deferred"
    assert world.wakes[pod.uid] > world.now_ns
    world.delete(other)
    world.advance(10)
    assert world.status(pod)["containerStatuses"][0]["resources"]["requests"]["cpu"] == "40"


def test_rejection_is_an_event_with_the_reason_alone(world: FleetWorld) -> None:
    world.add("p", {"resources": {"limits": {RESOURCE: "9"}}})
    ((_, event),) = world.events
    assert event.message.startswith("Allocate failed due to")


def test_restart_of_all_containers_shows_how_they_ended(world: FleetWorld) -> None:
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    script = {"nodeplane.dev/hollow-duration": "1s", "nodeplane.dev/hollow-exit-code": "42"}
    fields = {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    pod = world.add("p", fields, annotations=script, restartPolicy="Never")
    world.advance(1)
    (shown,) = world.status(pod)["containerStatuses"]
    assert (shown["restartCount"], next(iter(shown["state"]))) == (1, "running")
    assert shown["lastState"]["terminated"]["exitCode"] == 42


def test_resize_that_was_deferred_stays_so_in_the_next_run(world: FleetWorld) -> None:
    world.add("a", {"resources": {"requests": {"cpu": "40"}}})
    pod = world.add("b", {"resources": {"requests": {"cpu": "20"}}})
    obj = world.obj(pod)
    obj["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "30"
    pod.packed = packed(obj)
    world.settle()
    again = FleetWorld()
    for each in list(world.pods.values()):
        again.bind(world.obj(each))
    shown = again.status(again.pods[uid_of("b")])
    assert shown["containerStatuses"][0]["resources"]["requests"]["cpu"] == "20"
    assert condition(shown, "PodResizePending") == "True"


def test_pod_uses_an_address_for_each_sandbox_and_never_that_of_another(world: FleetWorld) -> None:
    pod = world.add("p")
    for number in range(300):
        world.change(pod, annotations={"number": str(number)})
    others = [world.add(f"q{number}") for number in range(60)]
    addresses = [world.status(each)["podIP"] for each in (pod, *others)]
    assert len(set(addresses)) == 61
    assert addresses[:2] == ["10.0.0.1", "10.0.0.2"]


def test_container_without_a_startup_is_stepped_when_it_ends_and_not_before(world: FleetWorld) -> None:
    probe = {"exec": {"command": ["x"]}, "periodSeconds": 1, "failureThreshold": 1}
    notes = {"nodeplane.dev/hollow-startup": "fail", "nodeplane.dev/hollow-stop": "20s"}
    pod = world.add("p", {"startupProbe": probe, "readinessProbe": probe}, annotations=notes)
    world.advance(3)
    assert world.wakes[pod.uid] > world.now_ns + 10**9


def test_shorter_grace_period_ends_a_pod_earlier(world: FleetWorld) -> None:
    pod = world.add("p", annotations={"nodeplane.dev/hollow-stop": "10m"})
    world.delete(pod, grace=600)
    world.advance(1)
    world.delete(pod, grace=2)
    world.advance(3)
    assert world.deleted == ["p"]


def test_back_off_of_each_container_is_recorded_once(world: FleetWorld) -> None:
    script = {"nodeplane.dev/hollow-duration": "1s", "nodeplane.dev/hollow-exit-code": "3"}
    world.add("p", {}, {"name": "b"}, annotations=script)
    world.advance(60)
    told = [field_path(event.container) for _, event in world.events if event.reason == "BackOff"]
    assert told.count("spec.containers{a}") == told.count("spec.containers{b}") == 3


def test_deadline_ends_a_pod_that_waits_for_its_claim(world: FleetWorld) -> None:
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    pod = world.add("p", activeDeadlineSeconds=5, resourceClaims=claims)
    world.advance(10)
    assert (world.status(pod)["phase"], world.status(pod)["reason"]) == ("Failed", "DeadlineExceeded")


def test_pod_beyond_its_deadline_fails(world: FleetWorld) -> None:
    pod = world.add("p", activeDeadlineSeconds=4)
    world.advance(5)
    assert (world.status(pod)["phase"], world.status(pod)["reason"]) == ("Failed", "DeadlineExceeded")


def test_critical_pod_takes_the_room_of_another(world: FleetWorld) -> None:
    big = {"resources": {"requests": {"cpu": "60"}}}
    world.add("p", big)
    critical = world.add("q", big, priority=2_000_000_000)
    assert world.node.preempted == {uid_of("p")}
    assert world.status(critical)["phase"] == "Pending"


def test_next_run_takes_up_containers_and_devices(world: FleetWorld) -> None:
    pod = world.add("p", ONE, annotations={"nodeplane.dev/hollow-duration": "1m"}, restartPolicy="Never")
    before = world.status(pod)
    again = FleetWorld()
    again.now_ns = world.now_ns
    resumed = again.bind(world.obj(pod))
    assert again.status(resumed) == before
    other = again.add("q", ONE)
    assert (
        again.status(other)["containerStatuses"][0]["allocatedResourcesStatus"][0]["resources"][0]["resourceID"]
        == "gpu-1"
    )
    again.advance(60)
    assert again.status(resumed)["phase"] == "Succeeded"


NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f"])


@given(st.lists(st.tuples(st.sampled_from(["add", "delete", "break", "mend", "wait", "crash"]), NAMES), max_size=30))
def test_no_device_has_two_owners_and_every_pod_ends(orders: list[tuple[str, str]]) -> None:
    world, serial = FleetWorld(), 0
    for order, name in orders:
        pod = next((each for each in world.pods.values() if each.name.startswith(name)), None)
        if order == "add" and pod is None:
            serial += 1
            world.add(f"{name}{serial}", {"resources": {"limits": {RESOURCE: str(1 + serial % 3)}}})
        elif order == "delete" and pod is not None:
            world.delete(pod)
        elif order in ("break", "mend"):
            world.node.devices.set_plugin_health(RESOURCE, [f"gpu-{ord(name) % 4}"], order == "mend", "", world.now_ns)
        elif order == "crash" and pod is not None and pod.containers is not None:
            pod.containers.crash(1, world.now_ns)
        world.advance(7)
        owned = [id for each in world.pods.values() for id in held(world, each)]
        assert len(owned) == len(set(owned))
    for pod in list(world.pods.values()):
        world.delete(pod)
    world.advance(40)
    assert not world.pods
    assert not any(world.node.devices.held(name) for name in world.deleted)


def held(world: FleetWorld, pod: Pod) -> list[str]:
    if pod.stage is not PodStage.SYNCING:
        return []
    return [
        id for container in world.node.devices.held(pod.uid).containers for one in container.resources for id in one.ids
    ]

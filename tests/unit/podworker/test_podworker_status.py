from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import hypothesis.strategies as st
import msgspec
from hypothesis import given

from actors.podworker.model.dependencies import NodeInfo
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.lifecycle.pods.stages import Facts, advance
from protocols.lifecycle.pods.types import SECOND, PodStage, Waiting, read_pod
from protocols.lifecycle.status import patch
from protocols.lifecycle.status.container import MAX_MOUNTS
from protocols.lifecycle.status.device_health import Retention, initializing
from protocols.lifecycle.status.patch import status_patch
from protocols.lifecycle.status.pod import StatusInputs, compute_status, is_over, overlay
from protocols.messages.health import PodResourceStatus, ResourceHealth, ResourceStatus
from protocols.messages.pleg import ContainerStatus, PodStatus, SandboxStatus
from tests.support.podworker_fakes import container, pod, sidecar

NOW = 1_700_000_000 * SECOND
BOX = SandboxStatus(id="s1", ready=True, attempt=0, created_ns=1)


def run(name: str, state: str = "running", attempt: int = 0, code: int = 0, **more: Any) -> ContainerStatus:
    times = {"started_ns": NOW - 9 * SECOND, "finished_ns": NOW - SECOND if state == "exited" else 0}
    return ContainerStatus(
        id=f"{name}{attempt}",
        sandbox_id="s1",
        name=name,
        attempt=attempt,
        restart_count=attempt,
        state=state,
        created_ns=attempt + 1,
        exit_code=code,
        image="img:1",
        image_id="sha256:1",
        **{**times, **more},
    )


def runtime(
    *containers: ContainerStatus, boxes: Iterable[SandboxStatus] = (BOX,), ips: tuple[str, ...] = ("10.0.0.1",)
) -> PodStatus:
    ordered = sorted(containers, key=lambda c: -c.created_ns)
    return PodStatus(uid="uid-1", sandboxes=tuple(boxes), containers=tuple(ordered), ips=ips)


def status(raw: views.Pod, found: PodStatus, **more: Any) -> views.PodStatus:
    before: Any = {**(raw.get("status") or {}), **more.pop("before", {})}
    view = StatusInputs(spec=read_pod(raw), runtime=found, before=before, host_ip="192.168.0.1", now_ns=NOW, **more)
    return compute_status(view)


def conditions(computed: views.PodStatus) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c.get("reason", "")) for c in computed["conditions"]}


VALUES = st.recursive(
    st.sampled_from([None, "", "a", 0, 1, False]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


def normal(value: object) -> object:
    """The value without what a status may leave out."""
    if isinstance(value, dict):
        return {key: found for key, each in value.items() if (found := normal(each)) is not None} or None
    if isinstance(value, list):
        return [normal(item) for item in value] or None
    return None if value == "" else value


@given(VALUES, VALUES)
def test_absent_null_and_empty_are_the_same_in_a_status(one: object, other: object) -> None:
    assert patch.same(one, other) == (normal(one) == normal(other))
    assert patch.same(one, normal(one))


def test_a_pod_before_its_first_container() -> None:
    shown = status(pod(container("a"), inits=[container("i")]), PodStatus(uid="uid-1"))
    assert shown["phase"] == "Pending"
    assert shown["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert conditions(shown) == {
        "PodReadyToStartContainers": ("False", ""),
        "Initialized": ("False", "ContainersNotInitialized"),
        "Ready": ("False", "ContainersNotReady"),
        "ContainersReady": ("False", "ContainersNotReady"),
        "PodScheduled": ("True", ""),
    }
    assert shown["hostIP"] == "192.168.0.1"
    assert "podIP" not in shown
    assert status(pod(hostNetwork=True), PodStatus(uid="uid-1"))["podIPs"] == [{"ip": "192.168.0.1"}]
    plain = status(pod(container("a")), PodStatus(uid="uid-1"))
    assert plain["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}


def test_a_running_pod() -> None:
    shown = status(pod(container("a")), runtime(run("a")))
    assert shown["phase"] == "Running"
    entry = shown["containerStatuses"][0]
    assert entry["containerID"] == "nodeplane://a0"
    assert entry["imageID"] == "sha256:1"
    assert entry["ready"]
    assert entry["started"]
    assert entry["state"] == {"running": {"startedAt": "2023-11-14T22:13:11Z"}}
    assert conditions(shown)["Ready"] == ("True", "")
    assert shown["podIPs"] == [{"ip": "10.0.0.1"}]


def test_addresses_begin_with_that_of_the_nodes_family() -> None:
    shown = status(pod(container("a")), msgspec.structs.replace(runtime(run("a")), ips=("fd00::1", "10.0.0.1")))
    assert (shown["podIP"], shown["podIPs"]) == ("10.0.0.1", [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}])
    assert NodeInfo("n", Path(), Path(), "fd00::9").node(("10.0.0.1", "fd00::1")).pod_ips == ("fd00::1", "10.0.0.1")


def test_an_initialized_pod_stays_so_while_a_sidecar_or_all_containers_start_again() -> None:
    raw = pod(inits=[container("i"), sidecar("side")])
    before = status(raw, runtime(run("i", "exited"), run("side"), run("a")))
    restarting = (run("i", "exited"), run("side", "exited"), run("a")), (run("i", attempt=1),)
    for containers in restarting:
        assert conditions(status(raw, runtime(*containers), before=before))["Initialized"] == ("True", "")


def test_closed_readiness_gates_are_named_in_upstreams_words() -> None:
    raw = pod(readinessGates=[{"conditionType": "a.io/x"}, {"conditionType": "a.io/y"}])
    shown = status(raw, runtime(run("a")), before={"conditions": [{"type": "a.io/y", "status": "False"}]})
    assert next(c["message"] for c in shown["conditions"] if c["type"] == "Ready") == (
        'corresponding condition of pod readiness gate "a.io/x" does not exist., '
        'the status of pod readiness gate "a.io/y" is not "True", but False'
    )


def test_user_and_stop_signal_are_shown_as_the_runtime_reports_them() -> None:
    found = runtime(run("a", user=(5, 6, 7), stop_signal="SIGUSR1"), run("b", user=(0, 0)), run("c"))
    first, second, third = status(pod(*map(container, "abc")), found)["containerStatuses"]
    assert first["user"] == {"linux": {"uid": 5, "gid": 6, "supplementalGroups": [7]}}
    assert (first["stopSignal"], second["user"]) == ("SIGUSR1", {"linux": {"uid": 0, "gid": 0}})
    assert not {"stopSignal", "user"} & third.keys()


def test_ended_containers_and_phases() -> None:
    for policy, codes, phase in (
        ("Always", (0, 1), "Running"),
        ("Never", (0, 0), "Succeeded"),
        ("Never", (0, 3), "Failed"),
        ("OnFailure", (0, 0), "Succeeded"),
        ("OnFailure", (0, 3), "Running"),
    ):
        raw = pod(container("a"), container("b"), policy=policy)
        ended = runtime(run("a", "exited", code=codes[0]), run("b", "exited", code=codes[1]))
        shown = status(raw, ended)
        assert shown["phase"] == phase, (policy, codes)
        assert is_over(read_pod(raw), shown) == (phase != "Running")
    failed = shown = status(pod(policy="Never"), runtime(run("a", "exited", code=3)))
    assert failed["containerStatuses"][0]["state"]["terminated"]["reason"] == "Error"
    assert failed["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert conditions(shown)["Ready"] == ("False", "PodFailed")


def test_crash_loop_shows_the_last_end() -> None:
    waiting = {"a": Waiting("CrashLoopBackOff", "back-off 10s")}
    entry = status(pod(), runtime(run("a", "exited", 2, 1)), waiting=waiting)["containerStatuses"][0]
    assert entry["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert entry["lastState"]["terminated"]["exitCode"] == 1
    assert entry["restartCount"] == 2


def test_terminal_phase_waits_for_devices_and_sidecars_and_never_reverts() -> None:
    raw = pod(inits=[sidecar("side")], policy="Never", status={"phase": "Running"})
    over = runtime(run("a", "exited"), run("side"))
    assert status(raw, over)["phase"] == "Running"
    assert (
        status(pod(policy="Never", status={"phase": "Running"}), runtime(run("a", "exited")), devices_held=True)[
            "phase"
        ]
        == "Running"
    )
    assert status(pod(status={"phase": "Failed", "reason": "X"}), runtime(run("a")))["phase"] == "Failed"
    assert status(pod(status={"phase": "Failed", "reason": "X"}), runtime(run("a")))["reason"] == "X"


def test_a_deleted_pod_ends_as_succeeded_or_failed() -> None:
    assert status(pod(), runtime(run("a", "exited", code=0)), final=True)["phase"] == "Succeeded"
    shown = status(pod(), runtime(run("a", "exited", code=143)), final=True)
    assert shown["phase"] == "Failed"
    assert "terminated" in shown["containerStatuses"][0]["state"]


def test_a_container_that_never_ran_is_terminated_once_an_initialized_pod_has_ended() -> None:
    def shown(raw: views.Pod, *runs: ContainerStatus) -> list[str]:
        ended = status(raw, runtime(*runs), final=True, waiting={"b": Waiting("ImagePullBackOff")})
        return [next(iter(entry["state"])) for entry in ended["containerStatuses"]]

    assert shown(pod(container("a"), container("b")), run("a", "exited", code=1)) == ["terminated", "terminated"]
    assert shown(pod(inits=[container("i")]), run("i", "exited")) == ["terminated"]
    assert shown(pod(inits=[container("i")]), run("i", "exited", code=1)) == ["waiting"]
    entry = status(pod(), runtime(), final=True)["containerStatuses"][0]["state"]["terminated"]
    assert (entry["exitCode"], entry["reason"]) == (137, "ContainerStatusUnknown")
    assert entry["message"] == "The container could not be located when the pod was terminated"


def test_a_forgotten_container_is_lost_not_new() -> None:
    before = {
        "containerStatuses": [
            {"name": "a", "restartCount": 3, "containerID": "nodeplane://x", "state": {"running": {}}}
        ]
    }
    entry = status(pod(), runtime(), before=before)["containerStatuses"][0]
    assert entry["restartCount"] == 3
    assert entry["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert entry["lastState"]["terminated"]["message"].endswith("The container used to be Running")
    gone = status(pod(policy="Never"), runtime(), before=before)["containerStatuses"][0]
    assert gone["state"]["terminated"]["exitCode"] == 137


def test_refused_by_admission() -> None:
    shown = status(pod(), PodStatus(uid="uid-1"), rejected=Waiting("UnexpectedAdmissionError", "Pod was rejected: no"))
    assert (shown["phase"], shown["reason"], shown["message"]) == (
        "Failed",
        "UnexpectedAdmissionError",
        "Pod was rejected: no",
    )
    assert "containerStatuses" not in shown
    assert "containerStatuses" not in status(pod(), PodStatus(uid="uid-1"), before=shown, final=True)


def test_device_health_goes_to_apps_and_sidecars_and_stays_at_the_end() -> None:
    health = (ResourceStatus("example.com/gpu", (ResourceHealth("gpu-1", "Unhealthy"),)),)
    resources = PodResourceStatus("uid-1", {"a": health, "i": health, "side": health})
    raw = pod(inits=[container("i"), sidecar("side")])
    shown = status(raw, runtime(run("a"), run("side"), run("i", "exited")), resources=resources)
    expected = [{"name": "example.com/gpu", "resources": [{"resourceID": "gpu-1", "health": "Unhealthy"}]}]
    assert shown["containerStatuses"][0]["allocatedResourcesStatus"] == expected
    assert [c.get("allocatedResourcesStatus") for c in shown["initContainerStatuses"]] == [None, expected]
    ended = status(raw, runtime(run("a", "exited")), before=shown, final=True, retention=Retention.KNOWN)
    assert ended["containerStatuses"][0]["allocatedResourcesStatus"] == expected


def test_device_health_of_an_init_container_shows_until_it_completes() -> None:
    health = (ResourceStatus("example.com/gpu", (ResourceHealth("gpu-1", "Unhealthy"),)),)
    raw = pod(inits=[container("i"), container("later")], policy="Never")
    resources = PodResourceStatus("uid-1", {"i": health, "later": health})
    field, broken = (
        "allocatedResourcesStatus",
        [{"name": "example.com/gpu", "resources": [{"resourceID": "gpu-1", "health": "Unhealthy"}]}],
    )

    def inits(*runs: ContainerStatus, **more: Any) -> object:
        shown: Any = status(raw, runtime(*runs), resources=resources, **more)
        return [c.get(field) for c in shown["initContainerStatuses"]], initializing(read_pod(raw), shown)

    assert inits() == ([broken, broken], ("i", "later"))
    assert inits(run("i")) == ([broken, broken], ("i", "later"))
    assert inits(run("i", "exited", code=0)) == ([None, broken], ("later",))
    assert inits(run("i", "exited", code=0), run("later", "exited", code=1), final=True) == ([None, broken], ())


def test_of_a_pod_that_is_over_the_devices_stand_though_nobody_holds_them_any_more() -> None:
    health = (ResourceStatus("example.com/gpu", (ResourceHealth("gpu-1", "Unhealthy"),)),)
    raw, resources = pod(policy="Never"), PodResourceStatus("uid-1", {"a": health}, health)
    shown = status(raw, runtime(run("a")), resources=resources)
    gone: Final = "allocatedResourcesStatus"
    dead = runtime(run("a", "exited", code=1))
    over = status(raw, dead, before=shown, devices_held=True)
    assert over["phase"] == "Running"
    assert over["containerStatuses"][0][gone] == shown["containerStatuses"][0][gone]
    assert over[gone] == shown[gone]
    assert gone not in status(raw, runtime(run("a")), before=shown)["containerStatuses"][0]
    vanished = ResourceStatus("example.com/gpu", (ResourceHealth("gpu-1", "Unknown", "no longer reported"),))
    fell_off = status(raw, dead, before=shown, resources=PodResourceStatus("uid-1", {"a": (vanished,)}))
    assert fell_off["containerStatuses"][0][gone][0]["resources"] == [
        {"resourceID": "gpu-1", "health": "Unknown", "message": "no longer reported"}
    ]
    off = status(raw, dead, before=shown, health_enabled=False)
    assert gone not in off["containerStatuses"][0]


def test_foreign_conditions_and_transition_times_are_kept() -> None:
    foreign = {"type": "example.com/x", "status": "True"}
    ours = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    shown = status(pod(status={"phase": "Pending", "conditions": [foreign, ours]}), runtime(run("a")))
    by_type = {c["type"]: c for c in shown["conditions"]}
    assert by_type["example.com/x"] == foreign
    assert by_type["PodScheduled"]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert by_type["Ready"]["lastTransitionTime"] == "2023-11-14T22:13:20Z"


def test_patch_is_minimal_guarded_and_empty_when_nothing_changed() -> None:
    old = status(pod(), runtime(run("a")))
    assert status_patch("u", old, old) is None
    changed = {c["type"]: c for c in status(pod(), runtime(run("a", "exited")), before=old)["conditions"]}
    patch = status_patch("u", old, {**old, "conditions": list(changed.values())})
    assert patch is not None
    assert patch["metadata"] == {"uid": "u"}
    assert {c["type"] for c in patch["status"]["conditions"]} == {"Ready", "ContainersReady"}
    patch = status_patch("u", {"podIPs": [{"ip": "1"}]}, {"podIPs": [{"ip": "2"}]})
    assert patch is not None
    assert patch["status"]["podIPs"] == [{"ip": "2"}, {"ip": "1", "$patch": "delete"}]
    assert status_patch("u", {"reason": "x"}, {}) == {"metadata": {"uid": "u"}, "status": {"reason": None}}


def test_computing_again_on_what_was_shown_changes_nothing() -> None:
    raw = pod(inits=[container("i")])
    first = status(raw, runtime(run("i", "exited"), run("a")))
    again = compute_status(
        StatusInputs(
            spec=read_pod(raw),
            runtime=runtime(run("i", "exited"), run("a")),
            before=overlay(raw["status"], first),
            host_ip="192.168.0.1",
            now_ns=NOW + 5 * SECOND,
        )
    )
    assert status_patch("u", first, again) is None


facts = st.builds(Facts, *(st.booleans() for _ in range(6)))


@given(st.lists(facts, max_size=20))
def test_stages_never_go_back_and_never_skip(seen: list[Facts]) -> None:
    stage = PodStage.SYNCING
    for item in seen:
        after = advance(stage, item)
        assert after in (stage, stage + 1)
        stage = PodStage(after)


states = st.sampled_from(["running", "exited", "created", "unknown"])
found = st.lists(
    st.builds(run, st.sampled_from(["a", "b", "i", "side"]), states, st.integers(0, 3), st.integers(0, 1)),
    max_size=6,
    unique_by=lambda c: c.id,
)


@given(
    st.lists(st.tuples(found, st.booleans()), min_size=1, max_size=6), st.sampled_from(["Always", "OnFailure", "Never"])
)
def test_counts_never_fall_and_no_terminal_phase_while_anything_runs(
    life: list[tuple[list[ContainerStatus], bool]], policy: str
) -> None:
    raw = pod(container("a"), container("b"), inits=[container("i"), sidecar("side")], policy=policy)
    before, counts, ended = raw["status"], dict[str, int](), ""
    for containers, final in life:
        alive = any(c.state in ("running", "unknown") for c in containers)
        shown = status(raw, runtime(*containers), before=before, final=final and not alive)
        for entry in shown["containerStatuses"] + shown["initContainerStatuses"]:
            assert entry["restartCount"] >= counts.get(entry["name"], 0)
            counts[entry["name"]] = entry["restartCount"]
        if ended:
            assert shown["phase"] == ended
        elif shown["phase"] in ("Succeeded", "Failed"):
            assert not alive
            ended = shown["phase"]
        before = shown


def mounts(*given: Object, supported: bool = True, before: list[Object] | None = None) -> Any:
    raw = pod(container("a", volumeMounts=list(given)), inits=[container("i")])
    old = {"containerStatuses": [{"name": "a", "volumeMounts": before}]} if before else {}
    shown = status(raw, runtime(run("a")), recursive=supported, before=old)
    assert "volumeMounts" not in shown["initContainerStatuses"][0]
    return shown["containerStatuses"][0].get("volumeMounts")


def test_volume_mounts_show_whether_they_are_read_only_and_how_deep() -> None:
    data, token = {"name": "data", "mountPath": "/data"}, {"name": "token", "mountPath": "/token", "readOnly": True}
    deep = {**token, "recursiveReadOnly": "IfPossible"}
    assert mounts(data, token) == [data, {**token, "recursiveReadOnly": "Disabled"}]
    assert mounts(deep) == [{**token, "recursiveReadOnly": "Enabled"}]
    assert mounts(deep, supported=False) == [{**token, "recursiveReadOnly": "Disabled"}]
    assert mounts({**deep, "mountPropagation": "HostToContainer"}) == [{**token, "recursiveReadOnly": "Disabled"}]
    assert mounts() is None


def test_volume_mounts_once_shown_stay_and_are_bounded() -> None:
    deep = {"name": "t", "mountPath": "/t", "readOnly": True, "recursiveReadOnly": "IfPossible"}
    shown = [{**deep, "recursiveReadOnly": "Enabled"}]
    assert mounts(deep, supported=False, before=shown) == shown
    assert len(mounts(*({"name": "d", "mountPath": f"/{n}"} for n in range(2000)))) == MAX_MOUNTS


def test_volume_mounts_are_shown_before_the_first_start() -> None:
    raw = pod(container("a", volumeMounts=[{"name": "d", "mountPath": "/d"}]))
    shown = status(raw, PodStatus(uid="uid-1"))
    assert shown["containerStatuses"][0]["volumeMounts"] == [{"name": "d", "mountPath": "/d"}]

"""`nodeplane why pod/NAME`: the conclusion from evidence that a real plane had (tests/support/record_why.py)."""

from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from protocols.kube.times import time_or
from protocols.recording.sources import LOGS
from protocols.trace import Row
from supervisor.trace.slow import slowest, start_of
from supervisor.why.gather import pod as gather
from supervisor.why.gather.replay import ReplaySources
from supervisor.why.gather.sources import LOG_LINES
from supervisor.why.model.text import lines
from supervisor.why.model.types import Diagnosis, PluginEvidence, PodEvidence
from supervisor.why.pods.diagnose import diagnose_pod
from supervisor.why.pods.running import how
from supervisor.why.pods.view import ContainerEnd, containers

RECORDED = Path(__file__).parents[2] / "support" / "why"


@cache
def recorded(name: str) -> PodEvidence:
    return msgspec.json.decode((RECORDED / f"{name}.json").read_bytes(), type=PodEvidence)


def diagnosed(name: str) -> Diagnosis:
    return diagnose_pod(recorded(name))


@pytest.mark.parametrize(
    ("name", "state", "words"),
    [
        ("crash", "crash loop", ["container main ended with exit code 3 at", "restarted 7 times", "back-off 5m0s"]),
        ("initcrash", "crash loop", ["init container setup ended with exit code 1"]),
        ("notready", "not ready", ["readiness probe (exec sh -c echo no model; exit 1)", "last answer at", "no model"]),
        ("finalized", "terminating", ["by kubernetes-admin", "example.com/keep (set by kubectl-client-side-apply"]),
        ("novolume", "waiting for its volumes", ['volume "c" : configmap "nowhere" not found']),
        ("noconfig", "waiting for its configuration", ['env A: configmap "nowhere" not found']),
        ("noclaim", "pending", ["claim default/nowhere: does not exist"]),
        ("selector", "pending", ["node vm: does not match the pod's nodeSelector: no label zone"]),
        ("plugin-gone", "pending", ["Insufficient example.com/gpu", "gone: example.com-gpu-30214.sock served until"]),
        ("gated", "scheduling gated", ["gate example.com/wait must be removed"]),
        ("failed", "failed", ["exit code 7", "its restart policy is Never"]),
        ("done", "succeeded", ["exit code 0"]),
        ("fine", "running", ["ready since"]),
        ("gone", "gone", ["kubernetes-admin deleted it"]),
        ("noimage", "waiting for its image", ["'registry.invalid/nope:1' of container main", "was not imported"]),
        ("hanging", "waiting for its plugin", ["Allocate of example.com/gpu is in progress for"]),
        ("waits-for-plugin", "waiting for its plugin", ["example.com/gpu does not serve", "no Register since"]),
        ("rejected-after-wait", "rejected", ["no healthy devices present"]),
        ("sick", "running on a broken device", ["device example.com/nic nic-0 is Un"]),
        ("rejected", "rejected", ["node vm rejected it", "UnexpectedAdmissionError", "Requested: 7, Available: 1"]),
        ("prestop", "terminating", ["still runs its preStop hook (exec sleep 590)", "SIGKILL follows in", "of 600 s"]),
        ("stubborn", "terminating", ["was sent SIGTERM and still runs", "grace period of 600 s"]),
        ("preempted", "preempted", ["pod of higher priority (by default/preemptor (priority 1000), node vm"]),
        ("preemptor", "pending", ["room on node vm", "preempted pods"]),
        ("gate", "not ready", ["readiness gate example.com/in-rotation"]),
        (
            "restarted",
            "restarted",
            ["ended with exit code 137 (SIGKILL)", "failed liveness probe", "last answer: stuck"],
        ),
        ("evicted", "evicted", ["taint example.com/maintenance=fan:NoExecute", "rule drain-gpus"]),
        ("evicted-gone", "gone", ["DeviceTaintManagerEviction", "device gpu.example.com/vm/gpu-0, rule drain-gpus"]),
        ("evicted-by-patch", "gone", ["taint example.com/burnt:NoExecute", "patch burnt (priority 7)"]),
        ("other-scheduler", "pending", ["its schedulerName is 'other', and no scheduler of this name"]),
        ("no-template", "pending", ['resourceclaimtemplates.resource.k8s.io "nope" not found']),
        ("pod-affinity", "pending", ["no node can run it: 1 node(s) didn't match pod affinity rules"]),
        ("no-volume-claim", "pending", ['no node can run it: persistentvolumeclaim "nopvc" not found']),
        ("no-such-node", "waiting for its node", ["node nosuchnode does not exist"]),
        ("answered-none", "rejected", ["no containers return in allocation response e.com/cnt"]),
        (
            "prestart-failed",
            "waiting for its configuration",
            ["PreStartContainer of the plugin of e.com/pre answered so"],
        ),
        (
            "unknown-cdi",
            "waiting for its configuration",
            ["v.com/gpu=none", "Allocate of the plugin of e.com/cdi answered"],
        ),
        (
            "no-command",
            "crash loop",
            ["could not be started at", 'exec: "/no/such/program": no such file or directory'],
        ),
        ("out-of-memory", "crash loop", ["as OOMKilled", "its memory limit is 30Mi"]),
        ("poststart-failed", "crash loop", ["its postStart hook (exec sh -c echo hookfail; exit 1) failed"]),
        ("poststart-runs", "starting", ["runs its postStart hook (exec sleep 600)"]),
        ("probe-later", "not ready", ["it runs first at", "initialDelaySeconds is 600"]),
        ("probe-silent", "not ready", ["startup probe (exec false)", "last answer at", "a failure without any output"]),
        ("greedy", "pending", ["of 4 devices 1 in use, 3 usable, at most 3 on one node where 9 are needed"]),
    ],
)
def test_state_names_the_reason(name: str, state: str, words: list[str]) -> None:
    found = diagnosed(name)
    assert (found.state, [word for word in words if word not in found.reason]) == (state, [])
    assert "\n" not in found.reason


def test_crash_loop_shows_the_last_lines_of_the_log() -> None:
    assert "log of main: cannot open /dev/nope" in diagnosed("crash").evidence


@pytest.mark.parametrize(
    ("name", "resource", "state"),
    [
        ("rejected-after-wait", "example.com/gpu", "did not come back: it served before the device manager restarted"),
        ("rejected", "example.com/nic", "serves unhealthy devices"),
    ],
)
def test_rejection_names_the_plugin_in_which_something_is_wrong(name: str, resource: str, state: str) -> None:
    found = diagnosed(name)
    assert any(line.startswith(f"plugin of {resource}: {state}") for line in found.evidence)
    assert any(f"`nodeplane why plugin/{resource}`" in line for line in found.advice)


def test_rejection_tells_how_long_the_plugin_was_waited_for() -> None:
    assert "it waited 9.7 s for the plugin of example.com/gpu" in diagnosed("rejected-after-wait").evidence


def test_answer_that_the_node_rejects_is_shown_although_its_status_is_ok() -> None:
    assert any("answered 0 containers for a request of 1" in line for line in diagnosed("answered-none").evidence)


def test_start_with_an_init_container_ends_with_the_container_that_waited_for_it() -> None:
    steps = [
        Row("create", "apiserver-0", 0, 1, 0, {}, 0),
        Row("start container", "podworker", 1, 1, 0, {"container": "prep"}, 0),
        Row("wait for init container", "podworker", 2, 14, 0, {"container": "prep"}, 0),
        Row("start container", "podworker", 16, 1, 0, {"container": "main"}, 0),
    ]
    assert start_of(steps) == (0, 17)
    assert slowest(steps) == ("step 'wait for init container' of podworker (prep)", 14)


def test_static_pod_that_ran_before_the_api_had_it_has_no_start() -> None:
    steps = [
        Row("start container", "podworker", 0, 1, 0, {"container": "main"}, 0),
        Row("create", "apiserver-0", 2, 1, 0, {}, 0),
    ]
    assert start_of(steps) is None
    assert slowest(steps) == ("", 0)


def test_advice_about_a_plugin_that_never_registered_asks_for_no_diagnosis_of_it() -> None:
    found = recorded("plugin-gone")
    never = PluginEvidence(resource="example.com/gpu", now=found.now)
    unknown = diagnose_pod(msgspec.structs.replace(found, plugins=(never,)))
    assert unknown.advice == ("start the plugin, or see its log: it registers at kubelet.sock",)
    assert diagnosed("plugin-gone").advice == ("see `nodeplane why plugin/example.com/gpu`",)


def test_changes_before_a_crash_name_the_field_and_the_devices() -> None:
    found = recorded("crash")
    assert found.pod is not None
    ended = time_or(found.pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["finishedAt"])
    moment = int((ended - 2) * 1e9)
    patch = {"user": "admin", "fields": "spec.containers[main].image", "pod": "default/crash"}
    steps = (
        Row("patch", "apiserver-0", 0, 1, 0, patch, moment),
        Row("patch status", "apiserver-0", 0, 1, 0, {"user": "system:node:vm"}, moment),
        Row("device health", "health", 0, 1, 0, {"health": "gpu-0 Unhealthy"}, moment),
        Row("device health", "podworker", 0, 1, 0, {"health": "gpu-0 Unhealthy"}, moment),
    )
    shown = diagnose_pod(msgspec.structs.replace(found, steps=steps)).evidence
    assert [line for line in shown if "before its end" in line] == [
        "2.0 s before its end: admin changed spec.containers[main].image (patch by apiserver-0)",
        "2.0 s before its end: its devices were reported gpu-0 Unhealthy",
    ]


def test_loop_of_a_program_that_succeeds_names_the_restart_policy() -> None:
    found = msgspec.json.decode(msgspec.json.encode(recorded("crash")), type=PodEvidence)
    assert found.pod is not None
    found.pod["status"]["containerStatuses"][0]["lastState"]["terminated"] |= {"exitCode": 0, "reason": "Completed"}
    assert "it is started again since its restart policy is Always" in diagnose_pod(found).reason


def test_pod_that_runs_without_the_device_it_requests_says_so() -> None:
    found = recorded("fine")
    never = msgspec.structs.replace(found, plugins=(PluginEvidence(resource="a.b/c", now=found.now),))
    assert any(line.startswith("requests a.b/c, which its node does not have") for line in diagnose_pod(never).evidence)
    assert not any(line.startswith("requests ") for line in diagnosed("fine").evidence)
    mapping = {"containerName": "main", "requestName": "r", "resourceName": "a.b/c"}
    assert never.pod is not None
    claimed = {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": [mapping]}}
    by_claim = msgspec.structs.replace(never, pod={**never.pod, "status": {**never.pod["status"], **claimed}})
    assert not any(line.startswith("requests ") for line in diagnose_pod(by_claim).evidence)


def test_start_names_its_longest_part() -> None:
    steps = recorded("fine").steps
    assert (window := start_of(steps)) is not None
    name, length = slowest(steps)
    assert name.startswith(("step ", "nothing between "))
    assert 0 < length <= window[1] - window[0]


def test_long_start_is_its_own_state() -> None:
    found = recorded("fine")
    late = [
        msgspec.structs.replace(row, start_ns=row.start_ns + (20 * 10**9 if row.name == "start container" else 0))
        for row in found.steps
    ]
    slow = diagnose_pod(msgspec.structs.replace(found, steps=tuple(late)))
    assert slow.state == "slow start"
    assert "nothing between" in slow.reason


def test_lines_are_bounded() -> None:
    shown = lines(Diagnosis("pod/default/a", "failed", "x" * 2000, tuple("e" * 2000 for _ in range(100))))
    assert len(shown) == 32
    assert max(map(len, shown)) < 600
    assert shown[-1] == "  and 70 more lines; -o json shows all"


def test_container_that_ended_while_others_run_is_named() -> None:
    found = recorded("failed")
    assert found.pod is not None
    pod = msgspec.json.decode(msgspec.json.encode(found.pod))
    pod["status"]["phase"] = "Running"
    partly = diagnose_pod(msgspec.structs.replace(found, pod=pod))
    assert partly.state == "container ended"
    assert "container main ended with exit code 7" in partly.reason
    assert "its restart policy is Never" in partly.reason


def with_sidecar(found: PodEvidence, spec: dict[str, Any], status: dict[str, Any]) -> Diagnosis:
    pod: Any = msgspec.json.decode(msgspec.json.encode(found.pod))
    pod["spec"]["initContainers"] = [{"name": "side", "restartPolicy": "Always", **spec}]
    pod["status"]["initContainerStatuses"] = [{"name": "side", "started": True, **status}]
    return diagnose_pod(msgspec.structs.replace(found, pod=pod))


def test_sidecar_that_ends_with_its_pod_is_not_why_the_pod_failed() -> None:
    killed = {"terminated": {"exitCode": 143, "reason": "Error", "finishedAt": "2026-11-28T11:41:35Z"}}
    reason = with_sidecar(recorded("failed"), {}, {"state": killed}).reason
    assert reason.startswith("container main ended with exit code 7")


def test_sidecar_whose_probe_fails_or_whose_device_is_broken_is_named() -> None:
    fine = recorded("fine")
    pod: Any = msgspec.json.decode(msgspec.json.encode(fine.pod))
    next(c for c in pod["status"]["conditions"] if c["type"] == "Ready")["status"] = "False"
    probe, state = {"readinessProbe": {"exec": {"command": ["up"]}}}, {"running": {"startedAt": "2026-11-28T11:41:32Z"}}
    unready = with_sidecar(msgspec.structs.replace(fine, pod=pod), probe, {"state": state})
    assert unready.reason.startswith("the readiness probe (exec up) of container side has not succeeded")
    sick = [{"name": "claim:gpu", "resources": [{"resourceID": "d/p/gpu-0", "health": "Unhealthy"}]}]
    broken = with_sidecar(fine, {}, {"state": state, "ready": True, "allocatedResourcesStatus": sick})
    assert broken.reason == "its containers run, but device d/p/gpu-0 of claim:gpu is Unhealthy"


def test_debugging_shell_is_what_a_deleted_pod_waits_for() -> None:
    found = recorded("stubborn")
    pod: Any = msgspec.json.decode(msgspec.json.encode(found.pod))
    [main] = pod["status"].pop("containerStatuses")
    pod["spec"]["ephemeralContainers"] = [{"name": "shell"}]
    pod["status"]["ephemeralContainerStatuses"] = [{**main, "name": "shell"}]
    reason = diagnose_pod(msgspec.structs.replace(found, pod=pod)).reason
    assert "container shell was sent SIGTERM and still runs" in reason


def test_pod_of_a_lost_node_names_the_node() -> None:
    found = recorded("fine")
    assert found.node is not None
    node = msgspec.json.decode(msgspec.json.encode(found.node))
    for condition in node["status"]["conditions"]:
        condition["status"] = "Unknown"
    lost = diagnose_pod(msgspec.structs.replace(found, node=node))
    assert lost.state == "node not ready"
    assert "its node vm is not Ready" in lost.reason
    gone = diagnose_pod(msgspec.structs.replace(found, node=None))
    assert (gone.state, gone.reason[:34]) == ("node not ready", "its node vm does not exist any mor")
    unread = msgspec.structs.replace(found, node=None, unread=("node could not be read: x",))
    assert diagnose_pod(unread).state == "running"


def test_pod_that_its_node_has_not_seen_waits_for_its_node() -> None:
    found = recorded("hanging")
    unseen = tuple(row for row in found.steps if row.actor != "podworker")
    waiting = diagnose_pod(msgspec.structs.replace(found, calls=(), steps=unseen))
    assert (waiting.state, waiting.reason) == ("waiting for its node", "node vm has not seen it yet")
    seen = diagnose_pod(msgspec.structs.replace(found, calls=()))
    assert "node vm saw it at" in seen.reason


@pytest.mark.parametrize(
    ("reason", "state", "advice"),
    [
        ("FailedCreatePodSandBox", "waiting for its sandbox", "`nodeplane logs cri`"),
        ("NetworkNotReady", "waiting for its sandbox", "CNI configuration"),
        ("FailedPrepareDynamicResources", "waiting for its driver", "--drivers"),
    ],
)
def test_failure_before_the_containers_is_that_of_its_event(reason: str, state: str, advice: str) -> None:
    found = recorded("novolume")
    assert found.pod is not None
    event = msgspec.structs.replace(found.events[-1], at=found.now, reason=reason, message="no room")
    failing = diagnose_pod(msgspec.structs.replace(found, events=(event,)))
    assert (failing.state, failing.reason) == (state, "no room")
    assert advice in failing.advice[0]
    old = msgspec.structs.replace(event, at=found.now - 3600)
    assert diagnose_pod(msgspec.structs.replace(found, events=(old,))).state == "starting"


def test_end_without_a_time_is_at_an_unknown_time() -> None:
    assert how(ContainerEnd(137, "ContainerStatusUnknown", "", 0.0, 0.0), 1_800_000_000.0) == (
        "ended with exit code 137 (SIGKILL) as ContainerStatusUnknown at an unknown time"
    )


def test_probe_of_a_container_whose_name_begins_the_same_ends_no_other() -> None:
    found = recorded("restarted")
    (name,) = (container.name for container in containers(found.pod or {}))
    killed = f"Container {name} failed liveness probe"
    other = tuple(
        msgspec.structs.replace(
            event, message=event.message.replace(killed, f"Container {name}-proxy failed liveness probe")
        )
        for event in found.events
    )
    assert other != found.events
    assert "the node ended it" in diagnose_pod(found).reason
    assert "the node ended it" not in diagnose_pod(msgspec.structs.replace(found, events=other)).reason


async def test_log_of_a_container_that_runs_again_is_that_of_its_last_run() -> None:
    asked = []

    class Logs:
        async def log(self, pod: object, container: str, previous: bool) -> str:
            asked.append((container, previous))
            return ""

    statuses = [
        {"name": "again", "ready": True, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
         "lastState": {"terminated": {"exitCode": 1}}},
        {"name": "unready", "ready": False, "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
    ]  # fmt: skip
    pod: Any = {
        "spec": {"containers": [{"name": "again"}, {"name": "unready"}]},
        "status": {"containerStatuses": statuses},
    }
    logs: Any = Logs()
    await gather._logs(logs, pod)
    assert asked == [("again", True), ("unready", False)]


def test_events_that_name_another_container_explain_nothing_of_this_one() -> None:
    restarted = recorded("restarted")
    others = tuple(msgspec.structs.replace(event, container="other") for event in restarted.events)
    assert "the node ended it" not in diagnose_pod(msgspec.structs.replace(restarted, events=others)).reason
    unready = recorded("notready")
    others = tuple(msgspec.structs.replace(event, container="other") for event in unready.events)
    assert "last answer" not in diagnose_pod(msgspec.structs.replace(unready, events=others)).reason
    imageless = recorded("noimage")
    others = tuple(msgspec.structs.replace(event, container="other") for event in imageless.events)
    assert diagnose_pod(msgspec.structs.replace(imageless, events=others)).evidence == ()


def test_container_called_as_a_word_of_a_message_was_not_killed_by_it() -> None:
    found = recorded("restarted")
    (name,) = (container.name for container in containers(found.pod or {}))
    killed, other = f"Container {name} failed liveness probe", f"Container other failed {name} liveness probe"
    events = (msgspec.structs.replace(event, message=event.message.replace(killed, other)) for event in found.events)
    assert "the node ended it" not in diagnose_pod(msgspec.structs.replace(found, events=tuple(events))).reason


def test_last_answer_is_that_of_the_probe_for_which_the_container_was_killed() -> None:
    found = recorded("restarted")
    late = msgspec.structs.replace(found.events[-1], reason="Unhealthy", message="Readiness probe failed: slow")
    assert "last answer: stuck" in diagnose_pod(msgspec.structs.replace(found, events=(*found.events, late))).reason


def test_plugin_whose_cdi_name_begins_another_is_not_the_culprit() -> None:
    found = recorded("unknown-cdi")
    pod = msgspec.json.decode(msgspec.json.encode(found.pod).replace(b"v.com/gpu=none", b"v.com/gpu=none2"))
    assert "of the plugin of" in diagnose_pod(found).reason
    assert "of the plugin of" not in diagnose_pod(msgspec.structs.replace(found, pod=pod)).reason


def test_event_names_its_container() -> None:
    event = {"involvedObject": {"fieldPath": "spec.initContainers{setup}"}}
    assert [gather._event(event).container, gather._event({}).container] == ["setup", ""]


def test_event_of_several_has_the_newest_message() -> None:
    """A failing probe that prints the time has such ones, here and on any kubelet."""
    event = {"message": "(combined from similar events): Readiness probe failed: 12:00"}
    assert gather._event(event).message == "Readiness probe failed: 12:00"


async def test_newest_events_are_shown_of_more_than_a_page() -> None:
    """An API lists by key: with a limit, those of the last names are missing, whatever their time."""
    items = [{"message": str(number), "lastTimestamp": f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z"}
             for number in range(600)]  # fmt: skip

    class Api:
        async def list(self, resource: object, namespace: str, *, field_selector: str, query: Any = None) -> Any:
            return {"items": items[: int((query or {}).get("limit", len(items)))]}

    sources: Any = SimpleNamespace(client=Api())
    assert (await gather.events_of(sources, "default", "involvedObject.uid=u"))[-1].message == "599"


async def test_long_lines_leave_out_none_at_the_end_of_a_log() -> None:
    pod: Any = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
    lines = [f"{number} {'x' * 9000}" for number in range(9)]
    sources: Any = ReplaySources(Mock(), 0, state={LOGS: {"ns/p/u/c": lines}})
    assert (await sources.log(pod, "c", False)).splitlines() == lines[-LOG_LINES:]

"""One pod's life as `nodeplane trace` shows it, and as an OpenTelemetry receiver gets it."""

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from protocols.kube.meta import Object
from tests.support.otlp_receiver import Received, Receiver, otlp_receiver
from tests.support.plane import Plane, until

RESOURCE = "example.com/gpu"
POD: Object = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "traced"},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "main",
                "image": "busybox",
                "command": ["sleep", "3600"],
                "resources": {"limits": {RESOURCE: "1"}},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with otlp_receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def plane(receiver: Receiver) -> Iterator[Plane]:
    """A plane that exports, on which a pod with a device has started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret")
        plane = Plane("--otlp", receiver.url)
    with plane:
        plane.plugin(RESOURCE)
        plane.apply(POD)
        plane.pod_ready("traced")
        yield plane


def spans(plane: Plane, pod: str = "pod/traced") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(plane.nodeplane("trace", pod, "-o", "json"))["spans"]
    return found


def steps(plane: Plane) -> set[tuple[str, str]]:
    return {(span["actor"].partition("-")[0], span["name"]) for span in spans(plane)}


def has(plane: Plane, *wanted: tuple[str, str]) -> bool:
    return set(wanted) <= steps(plane)


def has_step(plane: Plane, pod: str, name: str) -> bool:
    return any(span["name"] == name for span in spans(plane, f"pod/{pod}"))


START = (
    ("apiserver", "create"),
    ("apiserver", "store"),
    ("apiserver", "watch"),
    ("scheduler", "seen"),
    ("scheduler", "schedule"),
    ("scheduler", "bind"),
    ("apiserver", "create binding"),
    ("podworker", "seen"),
    ("podworker", "admit"),
    ("devices", "allocate"),
    ("devices", "Allocate"),
    ("devices", "checkpoint"),
    ("podworker", "volumes"),
    ("podworker", "sandbox"),
    ("podworker", "image"),
    ("podworker", "create container"),
    ("podworker", "start container"),
    ("cri", "runtime event"),
    ("pleg", "passed on"),
    ("pleg", "pleg event"),
    ("podworker", "runtime status"),
    ("podworker", "status"),
    ("podworker", "patch status"),
    ("apiserver", "patch status"),
)


def test_trace_of_a_start_has_every_step_nested_in_time(plane: Plane) -> None:
    until("every step of the start", lambda: has(plane, *START))
    found = spans(plane)
    assert found[0]["name"] == "create"
    assert all(span["start_ns"] >= 0 and span["duration_ns"] >= 0 for span in found)
    allocate = next(span for span in found if span["name"] == "Allocate")
    assert (allocate["depth"], allocate["attributes"]) == (2, {"resource": RESOURCE})
    first = {span["name"]: span["start_ns"] for span in reversed(found)}
    assert first["create"] < first["bind"] < first["sandbox"] < first["start container"]
    text = plane.nodeplane("trace", "traced")
    assert "Allocate" in text
    assert "resource=example.com/gpu" in text


def test_a_pod_and_its_saved_trace_took_the_same_time(plane: Plane) -> None:
    until("every step of the start", lambda: has(plane, *START))
    saved = plane.root / "saved.json"
    saved.write_text(plane.nodeplane("trace", "pod/traced", "-o", "json"))
    found = plane.nodeplane("trace", "--diff", str(saved), "pod/traced").splitlines()
    assert found[0] == "both starts took the same time, 0.00 ms apart"
    assert found[2] == "A is default/traced, B is default/traced; compared is the start"
    assert found[4].split() == ["A", "B", "DIFFERENCE", "ACTOR", "STEP"]


def test_trace_of_a_pod_that_waited_says_for_what(plane: Plane) -> None:
    pod = {**POD, "metadata": {"name": "late"}, "spec": {**POD["spec"], "nodeSelector": {"place": "here"}}}
    plane.apply(pod)
    until("no node", lambda: has_step(plane, "late", "unschedulable"))
    plane.kubectl("label", "node", "--all", "place=here")
    until("its start", lambda: has_step(plane, "late", "start container"))
    waits = [span["attributes"]["waits_for"] for span in spans(plane, "pod/late") if span["name"] == "queue"]
    assert waits[0].startswith("a change of ")
    assert "step 'queue' of scheduler (a change of " in plane.nodeplane("why", "pod/late")
    plane.delete("pod", "late", grace_s=1)


def test_trace_of_a_broken_device_leads_from_health_to_the_event(plane: Plane) -> None:
    allocated = plane.get("pod", "traced")["status"]["containerStatuses"][0]["allocatedResourcesStatus"]
    device = allocated[0]["resources"][0]["resourceID"]
    before = len(spans(plane))
    plane.chaos("device", RESOURCE, device, "unhealthy")

    def told() -> bool:
        new = [(span["actor"], span["name"]) for span in spans(plane)]
        wanted = {("health", "device health"), ("health", "event"), ("podworker", "device health")}
        return len(new) > before and wanted <= set(new)

    until("the way of the report", told)
    plane.chaos("device", RESOURCE, device, "clear")


def test_exported_spans_follow_the_conventions(plane: Plane, receiver: Receiver) -> None:
    uid = plane.get("pod", "traced")["metadata"]["uid"]

    def exported() -> list[Received]:
        mine = [span for span in receiver.spans if span.trace == UUID(uid).hex]
        names = {span.name for span in mine}
        return mine if {"create", "v1beta1.DevicePlugin/Allocate", "start container", "bind"} <= names else []

    mine = until("the pod's trace", exported)
    assert set(receiver.requests) == {"/v1/traces application/x-protobuf"}
    assert receiver.key == "secret"
    by_id = {span.id: span for span in mine}
    assert len(by_id) == len(mine)
    allocate = next(span for span in mine if span.name == "v1beta1.DevicePlugin/Allocate")
    chain = [allocate.name]
    while allocate.parent:
        allocate = by_id[allocate.parent]
        chain.append(allocate.name)
    assert chain == ["v1beta1.DevicePlugin/Allocate", "allocate", "admit"]
    call = next(span for span in mine if span.name == chain[0])
    assert call.kind == 3
    assert call.attributes == {
        "k8s.pod.uid": uid,
        "k8s.pod.name": "traced",
        "k8s.namespace.name": "default",
        "rpc.system": "grpc",
        "rpc.service": "v1beta1.DevicePlugin",
        "rpc.method": "Allocate",
        "nodeplane.resource": RESOURCE,
    }
    assert call.resource["service.name"] == "devices"
    assert call.resource["service.namespace"] == "nodeplane"
    assert all(span.end >= span.start > 10**18 for span in mine)


def test_exporter_killed_sends_again_with_the_same_ids(plane: Plane, receiver: Receiver) -> None:
    before = {(span.trace, span.id, span.name) for span in receiver.spans}
    receiver.spans.clear()
    plane.kill("otlp")
    until("all of it again", lambda: before <= {(span.trace, span.id, span.name) for span in receiver.spans})


def test_trace_of_a_deleted_pod_lacks_only_what_a_killed_actor_did(plane: Plane) -> None:
    uid = plane.get("pod", "traced")["metadata"]["uid"]
    plane.delete("pod", "traced")
    until("its end", lambda: has(plane, ("apiserver", "delete"), ("podworker", "release devices")))
    assert {span["name"] for span in spans(plane, uid)} <= {span["name"] for span in spans(plane)}
    plane.kill("health")
    until("health is back", lambda: plane.status()["health"]["state"] == "live")
    assert not has(plane, ("health", "device health"))


def test_trace_of_an_unknown_pod_is_one_line(plane: Plane) -> None:
    with pytest.raises(AssertionError, match="no process has seen a pod default/nobody"):
        plane.nodeplane("trace", "pod/nobody")

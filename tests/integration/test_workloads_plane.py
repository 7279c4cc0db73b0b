"""DaemonSets, Deployments and Jobs as users run them: kubectl rollout, pods that really run, controllers killed."""

import json
import os
import signal
from typing import Any

import pytest

from protocols.kube.meta import Object, condition_true
from tests.support.plane import Plane, until
from tests.support.plane_client import read_object
from tests.support.shared_fixtures import whole_plane

SLEEP = "exec sleep 300"
EVENT_REASONS = "jsonpath={.items[*].reason}"

plane = whole_plane


def workload(kind: str, name: str, script: str = SLEEP, pod: Object | None = None, **spec: Any) -> Object:
    container = {"name": "a", "image": "busybox:1", "command": ["sh", "-c", script]}
    group = "batch/v1" if kind == "Job" else "apps/v1"
    labels = {} if kind == "Job" else {"app": name}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": labels}}
    of_pod = {"terminationGracePeriodSeconds": 1, "containers": [container], **(pod or {})}
    template = {"metadata": {"labels": labels}, "spec": of_pod}
    return {
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {**selector, "template": template, **spec},
    }


COLLECTIONS = {
    "daemonset": "/apis/apps/v1/namespaces/default/daemonsets",
    "deployment": "/apis/apps/v1/namespaces/default/deployments",
    "endpointslices": "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
    "job": "/apis/batch/v1/namespaces/default/jobs",
    "rc": "/api/v1/namespaces/default/replicationcontrollers",
    "replicasets": "/apis/apps/v1/namespaces/default/replicasets",
}


def read(plane: Plane, kind: str, name: str = "", labels: str = "") -> Any:
    """Return an object, or the list with these labels; {} if there is none."""
    kind, _, named = kind.partition("/")
    path = f"/{named or name}" if named or name else f"?labelSelector={labels}"
    return read_object(plane.root, COLLECTIONS[kind] + path)


def pods_of(plane: Plane, name: str) -> list[Object]:
    owned = [pod for pod in plane.list("pod") if pod["metadata"]["name"].startswith(f"{name}-")]
    return [pod for pod in owned if "deletionTimestamp" not in pod["metadata"]]


def rolled_out(plane: Plane, what: str) -> None:
    plane.kubectl("rollout", "status", what, "--timeout=60s")


def kill_controllers(plane: Plane) -> None:
    os.kill(plane.status()["controllers"]["pid"], signal.SIGKILL)


def test_kinds_nobody_uses_start_no_controller(plane: Plane) -> None:
    log = (plane.root / "logs" / "controllers.log").read_text()
    assert "workload controller started" not in log


def test_workers_for_expressions_do_not_run_while_nobody_has_an_expression(plane: Plane) -> None:
    assert not [name for name in plane.status() if name.startswith("cel-")]


@pytest.mark.parametrize(("kind", "size"), [("DaemonSet", 1), ("Deployment", 3)])
def test_kubectl_rollout_of_a_workload_restarts_and_undoes_it(plane: Plane, kind: str, size: int) -> None:
    what = f"{kind.lower()}/roll"
    sized: dict[str, Any] = {"replicas": size} if kind == "Deployment" else {}
    plane.apply(workload(kind, "roll", **sized))
    rolled_out(plane, what)
    assert read(plane, what)["metadata"]["generation"] == 1
    first = {pod["metadata"]["uid"] for pod in pods_of(plane, "roll")}
    assert len(first) == size
    plane.kubectl("rollout", "restart", what)
    rolled_out(plane, what)
    second = pods_of(plane, "roll")
    assert len(second) == size
    assert not first & {pod["metadata"]["uid"] for pod in second}
    plane.kubectl("rollout", "undo", what)
    rolled_out(plane, what)
    annotations = read(plane, what)["spec"]["template"]["metadata"].get("annotations") or {}
    assert "kubectl.kubernetes.io/restartedAt" not in annotations
    revisions = plane.kubectl("rollout", "history", what).split("REVISION")[1].split()
    assert [word for word in revisions if word.isdigit()] == ["2", "3"]
    plane.kubectl("delete", what, "--cascade=foreground", "--timeout=60s")
    assert [pod for pod in plane.list("pod") if pod["metadata"]["name"].startswith("roll-")] == []


def test_replication_controller_runs_its_pods(plane: Plane) -> None:
    made = workload("ReplicationController", "rc", replicas=2, selector={"app": "rc"})
    plane.apply({**made, "apiVersion": "v1"})
    until("two ready pods", lambda: (read(plane, "rc/rc")["status"] or {}).get("readyReplicas") == 2)
    plane.kubectl("scale", "rc/rc", "--replicas=1")
    until("one pod", lambda: len(pods_of(plane, "rc")) == 1)
    plane.kubectl("delete", "rc/rc", "--wait=false")


def test_deployment_paused_changes_nothing_until_it_is_resumed(plane: Plane) -> None:
    plane.apply(workload("Deployment", "held", replicas=1))
    rolled_out(plane, "deployment/held")
    plane.kubectl("rollout", "pause", "deployment/held")
    plane.kubectl("set", "env", "deployment/held", "VERSION=2")
    plane.kubectl("scale", "deployment/held", "--replicas=2")
    until("two pods", lambda: len(pods_of(plane, "held")) == 2)
    assert len(read(plane, "replicasets", labels="app=held")["items"]) == 1
    plane.kubectl("rollout", "resume", "deployment/held")
    rolled_out(plane, "deployment/held")
    assert len(read(plane, "replicasets", labels="app=held")["items"]) == 2
    plane.kubectl("delete", "deployment/held", "--wait=false")


def test_deployment_rolls_over_a_rollout_that_cannot_succeed_and_forgets_old_replica_sets(plane: Plane) -> None:
    def revisions() -> Any:
        return read(plane, "replicasets", labels="app=over")["items"]

    plane.apply(workload("Deployment", "over", replicas=1, revisionHistoryLimit=0))
    rolled_out(plane, "deployment/over")
    for number, probe in enumerate(({"exec": {"command": ["false"]}}, None)):
        container = {"name": "a", "readinessProbe": probe, "env": [{"name": "NUMBER", "value": str(number)}]}
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
        plane.kubectl("patch", "deployment/over", "-p", json.dumps(patch))
        if probe:
            until("two revisions", lambda: len(revisions()) == 2)
    rolled_out(plane, "deployment/over")
    until("one revision", lambda: len(revisions()) == 1)
    assert revisions()[0]["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] == "1"
    plane.kubectl("delete", "deployment/over", "--wait=false")


def test_replica_set_follows_its_scale_subresource(plane: Plane) -> None:
    plane.apply(workload("ReplicaSet", "scaled", replicas=1))
    until("a pod", lambda: len(pods_of(plane, "scaled")) == 1)
    path = "/apis/apps/v1/namespaces/default/replicasets/scaled/scale"
    scale = json.loads(plane.kubectl("get", "--raw", path))
    assert (scale["kind"], scale["spec"]) == ("Scale", {"replicas": 1})
    scale["spec"]["replicas"] = 2
    del scale["metadata"]["resourceVersion"]  # the status changes meanwhile
    plane.kubectl("replace", "--raw", path, "-f", "-", stdin=json.dumps(scale))
    until("two pods", lambda: len(pods_of(plane, "scaled")) == 2)
    until("their number", lambda: read(plane, "replicasets", "scaled")["status"].get("readyReplicas") == 2)
    plane.kubectl("delete", "rs", "scaled", "--wait=false")


def test_service_of_a_deployment_has_its_ready_pods_as_endpoints(plane: Plane) -> None:
    service = {"selector": {"app": "served"}, "ports": [{"port": 80, "targetPort": 8080}]}
    plane.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "served"}, "spec": service})
    plane.apply(workload("Deployment", "served", replicas=2))
    until("two endpoints", lambda: _endpoints(plane) == [True, True])
    kill_controllers(plane)
    plane.kubectl("scale", "deployment/served", "--replicas=1")
    until("one endpoint", lambda: _endpoints(plane) == [True])
    (found,) = _slices(plane)
    assert found["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]
    plane.kubectl("delete", "endpointslice", found["metadata"]["name"])
    until("the slice again", lambda: _endpoints(plane) == [True])
    plane.kubectl("delete", "service/served", "deployment/served")
    until("no slice", lambda: _slices(plane) == [])


def _slices(plane: Plane) -> Any:
    return read(plane, "endpointslices", labels="kubernetes.io/service-name=served").get("items", [])


def _endpoints(plane: Plane) -> list[bool]:
    return [endpoint["conditions"]["ready"] for found in _slices(plane) for endpoint in found["endpoints"] or ()]


def test_deployment_whose_controllers_are_killed_in_a_rollout_completes_it(plane: Plane) -> None:
    plane.apply(workload("Deployment", "killed", replicas=4))
    rolled_out(plane, "deployment/killed")
    plane.kubectl("set", "env", "deployment/killed", "VERSION=2")
    for _ in range(2):
        seen = plane.status()["controllers"]["pid"]
        kill_controllers(plane)
        gone = (0, None, seen)
        until("controllers again", lambda: plane.status()["controllers"]["pid"] not in gone)  # noqa: B023 # used at once
    rolled_out(plane, "deployment/killed")
    until("four pods", lambda: len(pods_of(plane, "killed")) == 4)
    assert {env["value"] for pod in pods_of(plane, "killed") for env in pod["spec"]["containers"][0]["env"]} == {"2"}
    plane.kubectl("delete", "deployment/killed", "--cascade=orphan")
    until("its ReplicaSets orphaned", lambda: all("ownerReferences" not in each["metadata"] for each in _sets(plane)))
    plane.apply(workload("Deployment", "killed", replicas=4))
    until("them adopted", lambda: all("ownerReferences" in each["metadata"] for each in _sets(plane)))
    plane.kubectl("delete", "deployment/killed", "--timeout=60s")
    until("all deleted", lambda: not _sets(plane) and not pods_of(plane, "killed"))


def _sets(plane: Plane) -> Any:
    return read(plane, "replicasets", labels="app=killed").get("items", [])


def test_job_that_fails_reports_why_and_is_deleted_after_its_time_to_live(plane: Plane) -> None:
    policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
    spec = {"podFailurePolicy": policy, "ttlSecondsAfterFinished": 3}
    plane.apply(workload("Job", "broken", "exit 42", {"restartPolicy": "Never"}, **spec))
    failed = until(
        "its failure", lambda: [job for job in [read(plane, "job", "broken")] if condition_true(job, "Failed")]
    )
    reasons = {condition["type"]: condition["reason"] for condition in failed[0]["status"]["conditions"]}
    assert reasons == {"FailureTarget": "PodFailurePolicy", "Failed": "PodFailurePolicy"}
    assert (
        "failed with exit code 42 matching FailJob rule at index 0" in failed[0]["status"]["conditions"][1]["message"]
    )
    until("it is deleted", lambda: not read(plane, "job", "broken"))


def test_job_fails_by_its_indexes_and_runs_the_others_to_their_end(plane: Plane) -> None:
    policy = {"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}}]}
    spec = {"completionMode": "Indexed", "completions": 3, "parallelism": 3, "backoffLimitPerIndex": 1}
    script = 'test "$JOB_COMPLETION_INDEX" != 1 || exit 42'
    plane.apply(workload("Job", "indexed", script, {"restartPolicy": "Never"}, **spec, podFailurePolicy=policy))
    failed = until("its end", lambda: [job for job in [read(plane, "job", "indexed")] if condition_true(job, "Failed")])
    status = failed[0]["status"]
    assert (status["completedIndexes"], status["failedIndexes"], status["failed"]) == ("0,2", "1", 1)
    assert {condition["reason"] for condition in status["conditions"]} == {"FailedIndexes"}
    plane.kubectl("delete", "job", "indexed", "--wait=false")


def test_daemon_set_leaves_a_node_whose_label_it_does_not_select_and_replaces_a_failed_pod(plane: Plane) -> None:
    node = plane.list("node")[0]["metadata"]["name"]
    plane.apply(workload("DaemonSet", "picky", pod={"nodeSelector": {"devices": "yes"}}))
    until("its status", lambda: read(plane, "daemonset", "picky").get("status", {}).get("observedGeneration") == 1)
    assert pods_of(plane, "picky") == []
    plane.kubectl("label", "node", node, "devices=yes")
    rolled_out(plane, "daemonset/picky")
    pod = until("its pod", lambda: pods_of(plane, "picky"))[0]
    assert {toleration["key"] for toleration in pod["spec"]["tolerations"]} >= {"node.kubernetes.io/unschedulable"}
    body = json.dumps({"status": {"phase": "Failed", "reason": "Evicted"}})
    plane.kubectl("patch", "pod", pod["metadata"]["name"], "--subresource=status", "-p", body)
    uid = pod["metadata"]["uid"]
    until("another", lambda: [each for each in pods_of(plane, "picky") if each["metadata"]["uid"] != uid])
    assert "FailedDaemonPod" in plane.kubectl("get", "events", "-o", EVENT_REASONS)
    plane.kubectl("label", "node", node, "devices-")
    until("no pod", lambda: not pods_of(plane, "picky"))


def test_job_deleted_with_orphaned_pods_frees_them(plane: Plane) -> None:
    plane.apply(workload("Job", "left", SLEEP, {"restartPolicy": "Never"}))
    until("its pod", lambda: pods_of(plane, "left"))
    plane.kubectl("delete", "job/left", "--cascade=orphan", "--timeout=60s")
    pod = until(
        "its pod freed", lambda: [pod for pod in pods_of(plane, "left") if "finalizers" not in pod["metadata"]]
    )[0]
    assert "ownerReferences" not in pod["metadata"]
    plane.kubectl("delete", "pod", pod["metadata"]["name"], "--timeout=60s")

"""kubectl's verbs for workloads, with the test in the place of their controllers."""

import json
from typing import Any

from tests.support.apiserver_plane import Plane

Object = dict[str, Any]
REVISION = "deployment.kubernetes.io/revision"


def get(plane: Plane, kind: str, name: str) -> Object:
    found: Object = json.loads(plane.kubectl("get", kind, name, "-o", "json"))
    return found


def create(plane: Plane, obj: Object) -> None:
    plane.kubectl("create", "-f", "-", stdin=json.dumps(obj))


def owned(owner: Object, name: str, kind: str, **parts: Any) -> Object:
    """Return an object that a controller makes for its owner."""
    held = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": held["name"], "uid": held["uid"]}
    metadata = {"name": name, "labels": {"app": held["name"]}, "ownerReferences": [{**reference, "controller": True}]}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, **parts}


def replica_set(deployment: Object, number: int) -> Object:
    labels = {"app": deployment["metadata"]["name"]}
    template = {**deployment["spec"]["template"], "metadata": {"labels": labels}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    made = owned(deployment, f"{deployment['metadata']['name']}-{number}", "ReplicaSet", spec=spec)
    made["metadata"]["annotations"] = {REVISION: str(number)}
    return made


def observed(plane: Plane, kind: str, name: str, status: Object) -> None:
    """Write a status as the kind's controller does."""
    generation = get(plane, kind, name)["metadata"]["generation"]
    patch = json.dumps({"status": {**status, "observedGeneration": generation}})
    plane.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", patch)


def test_deployment_is_created_scaled_and_changed(plane: Plane) -> None:
    plane.kubectl("create", "deployment", "web", "--image=i:1", "--replicas=2")
    plane.kubectl("scale", "deployment", "web", "--current-replicas=2", "--replicas=3")
    plane.kubectl("set", "image", "deployment/web", "i=i:2")
    plane.kubectl("set", "env", "deployment/web", "A=b")
    plane.kubectl("rollout", "pause", "deployment/web")
    paused = plane.kubectl("rollout", "restart", "deployment/web", check=False)
    assert "can't restart paused deployment" in paused
    plane.kubectl("rollout", "resume", "deployment/web")
    plane.kubectl("rollout", "restart", "deployment/web")
    made = get(plane, "deployment", "web")
    template = made["spec"]["template"]
    assert made["spec"]["replicas"] == 3
    assert made["metadata"]["generation"] == 7
    assert "kubectl.kubernetes.io/restartedAt" in template["metadata"]["annotations"]
    assert [(container["image"], container["env"]) for container in template["spec"]["containers"]] == [
        ("i:2", [{"name": "A", "value": "b"}])
    ]
    scale = json.loads(plane.kubectl("get", "--raw", "/apis/apps/v1/namespaces/default/deployments/web/scale"))
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    assert "deployment.apps/web" in plane.kubectl("get", "all", "-o", "wide")


def test_deployment_rollout_has_a_history_to_which_it_goes_back(plane: Plane) -> None:
    plane.kubectl("create", "deployment", "app", "--image=i:1")
    create(plane, replica_set(get(plane, "deployment", "app"), 1))
    plane.kubectl("set", "image", "deployment/app", "i=i:2")
    create(plane, replica_set(get(plane, "deployment", "app"), 2))
    history = plane.kubectl("rollout", "history", "deployment/app")
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
    assert "i:1" in plane.kubectl("rollout", "history", "deployment/app", "--revision=1")
    plane.kubectl("rollout", "undo", "deployment/app")
    assert get(plane, "deployment", "app")["spec"]["template"]["spec"]["containers"][0]["image"] == "i:1"
    waiting = plane.kubectl("rollout", "status", "deployment/app", "--watch=false")
    assert "Waiting for deployment spec update to be observed" in waiting
    counts = dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), 1)
    observed(plane, "deployment", "app", counts)
    assert "successfully rolled out" in plane.kubectl("rollout", "status", "deployment/app", "--timeout=20s")


def daemon_set(image: str) -> Object:
    labels = {"app": "agent"}
    pod = {"containers": [{"name": "c", "image": image}], "nodeSelector": {"kubernetes.io/os": "linux"}}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": spec}


def test_daemon_set_rollout_has_a_history_to_which_it_goes_back(plane: Plane) -> None:
    for number in (1, 2):
        plane.kubectl("apply", "-f", "-", stdin=json.dumps(daemon_set(f"i:{number}")))
        stored = get(plane, "daemonset", "agent")
        data = {"spec": {"template": {**stored["spec"]["template"], "$patch": "replace"}}}
        create(plane, owned(stored, f"agent-{number}", "ControllerRevision", data=data, revision=number))
    assert "daemonset.apps/agent" in plane.kubectl("get", "controllerrevisions", "agent-1")
    history = plane.kubectl("rollout", "history", "daemonset/agent")
    assert [line.split()[0] for line in history.splitlines()[2:] if line] == ["1", "2"]
    plane.kubectl("rollout", "undo", "daemonset/agent", "--to-revision=1")
    stored = get(plane, "daemonset", "agent")
    assert stored["spec"]["template"]["spec"]["containers"][0]["image"] == "i:1"
    assert stored["metadata"]["annotations"]["deprecated.daemonset.template.generation"] == "3"
    plane.kubectl("rollout", "restart", "daemonset/agent")
    scheduled = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled")
    counts = dict.fromkeys((*scheduled, "numberReady", "numberAvailable"), 2)
    observed(plane, "daemonset", "agent", counts)
    assert "successfully rolled out" in plane.kubectl("rollout", "status", "daemonset/agent", "--timeout=20s")
    row = plane.kubectl("get", "ds", "agent", "-o", "wide").splitlines()[1].split()
    assert [*row[:7], *row[8:]] == ["agent", *"22222", "kubernetes.io/os=linux", "c", "i:1", "app=agent"]


def test_applied_deployment_is_unchanged_differs_and_has_two_managers(plane: Plane) -> None:
    body = plane.kubectl("create", "deployment", "kept", "--image=i:1", "--dry-run=client", "-o", "yaml")
    other = body.replace("i:1", "i:2")
    assert "created" in plane.kubectl("apply", "-f", "-", stdin=body)
    assert "unchanged" in plane.kubectl("apply", "-f", "-", stdin=body)
    assert "+      - image: i:2" in plane.kubectl("diff", "-f", "-", stdin=other, check=False)
    assert "configured" in plane.kubectl("apply", "-f", "-", stdin=other)
    conflict = plane.kubectl("apply", "--server-side", "--field-manager=b", "-f", "-", stdin=body, check=False)
    assert ".spec.template.spec.containers" in conflict
    plane.kubectl("apply", "--server-side", "--field-manager=b", "--force-conflicts", "-f", "-", stdin=body)
    stored = get(plane, "deployment", "kept")
    assert stored["spec"]["template"]["spec"]["containers"][0]["image"] == "i:1"


def test_jobs_are_created_suspended_and_deleted(plane: Plane) -> None:
    plane.kubectl("create", "job", "once", "--image=i:1", "--", "true")
    plane.kubectl("create", "cronjob", "tick", "--image=i:1", "--schedule=*/5 * * * *", "--", "true")
    plane.kubectl("create", "job", "now", "--from=cronjob/tick")
    plane.kubectl("patch", "job", "once", "-p", '{"spec":{"suspend":true}}')
    plane.kubectl("patch", "cronjob", "tick", "-p", '{"spec":{"suspend":true}}')
    row = plane.kubectl("get", "cj", "tick", "-o", "wide").splitlines()[1].split()
    assert row[:8] == ["tick", "*/5", "*", "*", "*", "*", "<none>", "True"]
    assert get(plane, "job", "now")["metadata"]["ownerReferences"][0]["kind"] == "CronJob"
    for verb in ("describe", "get"):
        assert "once" in plane.kubectl(verb, "job", "once")
    patch = '{"spec":{"template":{"spec":{"containers":[{"name":"once","image":"i:2"}]}}}}'
    assert "field is immutable" in plane.kubectl("patch", "job", "now", "-p", patch, check=False)
    plane.kubectl("delete", "job", "once", "now")
    plane.kubectl("delete", "cronjob", "tick")


def test_deleted_job_leaves_its_pods_unless_it_is_told_otherwise(plane: Plane) -> None:
    plane.kubectl("create", "job", "left", "--image=i:1", "--", "true")
    path = "/apis/batch/v1/namespaces/default/jobs/left"
    told = plane.kubectl("delete", "--raw", path, check=False)
    assert "child pods are preserved by default" in told
    assert "orphan" in get(plane, "job", "left")["metadata"]["finalizers"]
    plane.kubectl("patch", "job", "left", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def test_explain_and_dump_know_workloads(plane: Plane) -> None:
    assert "maxUnavailable" in plane.kubectl("explain", "deployment.spec.strategy.rollingUpdate")
    assert "-required-" in plane.kubectl("explain", "job.spec.podFailurePolicy.rules.onExitCodes")
    assert "timeZone" in plane.kubectl("explain", "cronjob.spec", "--output=plaintext-openapiv2")
    dump = plane.kubectl("cluster-info", "dump", "--namespaces=default")
    assert "DaemonSetList" in dump


def test_replication_controller_is_exposed_as_a_service(plane: Plane) -> None:
    container = {"name": "a", "image": "i", "ports": [{"containerPort": 6379}]}
    template = {"metadata": {"labels": {"app": "rc"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"app": "rc"}, "template": template}
    create(plane, {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old"}, "spec": spec})
    plane.kubectl("expose", "rc", "old", "--name=rm2", "--port=1234", "--target-port=6379")
    plane.kubectl("expose", "service", "rm2", "--name=rm3", "--port=2345", "--target-port=6379")
    for name, port in (("rm2", 1234), ("rm3", 2345)):
        made = get(plane, "service", name)["spec"]
        assert made["selector"] == {"app": "rc"}
        assert [(each["port"], each["targetPort"]) for each in made["ports"]] == [(port, 6379)]

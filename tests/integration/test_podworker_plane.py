"""podworker among the real others: a whole plane, pods as people write them, and podworker killed in between."""

import itertools
import json
import os
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
import yaml

from protocols.kube.meta import Object, name_of
from protocols.kube.protobuf.envelope import decode_message
from protocols.kube.protobuf.table import message_of
from protocols.wire import pods_v1alpha1_pb2 as pods_pb
from protocols.wire.methods import CLIENT_OPTIONS
from tests.support.plane import Plane, until
from tests.support.runtime import running
from tests.support.shared_fixtures import whole_plane
from tests.support.stubs import call

REPO = Path(__file__).parents[2]
TOKENS = itertools.count(os.getpid() * 1000)

plane = whole_plane


def pod(name: str, *containers: Object, inits: Iterable[Object] = (), **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 2,
            "containers": list(containers),
            **({"initContainers": list(inits)} if inits else {}),
            **spec,
        },
    }


def shell(name: str, script: str, **more: Any) -> Object:
    return {"name": name, "image": "busybox:1", "command": ["sh", "-c", script], **more}


def sleeper(name: str, token: int, **more: Any) -> Object:
    return {"name": name, "image": "busybox:1", "command": ["sleep", str(token)], **more}


def container(found: Object, name: str = "a") -> Object:
    status = found.get("status", {})
    entries = [*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ())]
    return next((entry for entry in entries if entry["name"] == name), {})


def events_of(plane: Plane, name: str) -> set[str]:
    """Their reasons."""
    return {event["reason"] for event in plane.events(name)}


def kill_podworker(plane: Plane) -> None:
    plane.kill("podworker")


def test_a_rule_restarts_a_container_of_a_pod_that_never_does(plane: Plane) -> None:
    script = 'cd "$NODEPLANE_MOUNT_STATE"; [ -e tried ] || { touch tried; exit 42; }; exit 0'
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]
    retried = shell("a", script, restartPolicy="Never", restartPolicyRules=rules)
    retried["volumeMounts"] = [{"name": "state", "mountPath": "/state"}]
    plane.apply(pod("ruled", retried, restartPolicy="Never", volumes=[{"name": "state", "emptyDir": {}}]))
    found = plane.pod_phase("ruled", "Succeeded")
    assert container(found)["restartCount"] == 1
    assert container(found)["lastState"]["terminated"]["exitCode"] == 42


def test_init_containers_sidecars_and_the_downward_api(plane: Plane) -> None:
    env = [
        {"name": "GREETING", "value": "hello"},
        {"name": "ME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    ]
    plane.apply(
        pod(
            "full",
            shell("a", "echo $ME $(GREETING); exec sleep 300", env=env),
            inits=[
                shell("first", "exit 0"),
                sleeper("side", next(TOKENS), restartPolicy="Always"),
                shell("last", "exit 0"),
            ],
        )
    )
    found = plane.pod_ready("full")
    assert found["status"]["phase"] == "Running"
    order = [container(found, name)["state"] for name in ("first", "last")]
    assert [state["terminated"]["reason"] for state in order] == ["Completed", "Completed"]
    assert container(found, "side")["started"]
    assert container(found)["image"] == "busybox:1"
    log = next((plane.root / "pods-logs").glob("default_full_*/a/0.log"))
    until("log line", lambda: "full hello" in log.read_text())
    until("its events", lambda: events_of(plane, "full"), every=0.2)
    plane.delete("pod", "full")
    until("its logs gone, a moment after the pod", lambda: not list((plane.root / "pods-logs").glob("default_full_*")))


def test_the_pods_api_shows_what_the_api_shows(plane: Plane) -> None:
    """v1alpha1.Pods on its own socket: uid, labels and status of a running pod, read as Go's clients read it."""
    plane.apply({**(made := pod("seen", sleeper("a", 300))), "metadata": {**made["metadata"], "labels": {"app": "x"}}})
    plane.pod_ready("seen")

    def told() -> Any:
        with grpc.insecure_channel(
            f"unix:{plane.root}/kubelet/pods-api/pods-api.sock", options=CLIENT_OPTIONS
        ) as channel:
            list_pods = call(channel, pods_pb.DESCRIPTOR.services_by_name["Pods"], "ListPods")
            reply = list_pods(pods_pb.ListPodsRequest(), timeout=30)
        found = [decode_message(message_of("v1", "Pod"), pod) for pod in reply.pods]
        return {item["metadata"]["name"]: item for item in found}.get("seen")

    def same() -> Any:
        mine, theirs = told(), plane.get("pod", "seen")
        return mine and mine["status"].get("containerStatuses") == theirs["status"].get("containerStatuses") and mine

    found, theirs = until("the same status", same), plane.get("pod", "seen")
    for key in ("uid", "name", "namespace", "labels"):
        assert found["metadata"][key] == theirs["metadata"][key]
    assert found["spec"]["containers"][0]["command"] == ["sleep", "300"]
    plane.delete("pod", "seen", wait=False)
    until("its end", lambda: told() is None)


@pytest.mark.parametrize("runtime", ["containerd", "cri-o"])
def test_adopt_manifests_pass_the_api(plane: Plane, runtime: str) -> None:
    """Server-side dry run of an overlay, and of a pod as its DaemonSet makes it."""
    rendered = plane.kubectl("kustomize", str(REPO / "deploy/kubernetes/adopt/overlays" / runtime))
    objects = {item["kind"]: item for item in yaml.safe_load_all(rendered)}
    template = objects["DaemonSet"]["spec"]["template"]
    made = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": "adopt-x"}}
    made = json.loads(json.dumps(made))
    del made["spec"]["serviceAccountName"]  # a dry run of the account does not keep it
    made["metadata"]["namespace"] = "nodeplane"
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(objects["Namespace"]))  # what is in it needs it
    everything = {"apiVersion": "v1", "kind": "List", "items": [*objects.values(), made]}
    dry = ("apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-")
    told = plane.kubectl(*dry, stdin=json.dumps(everything)).splitlines()
    assert len(told) == 5
    assert all("serverside-applied (server dry run)" in line for line in told), told


IN_CLUSTER = """
import os
base = "NODEPLANE_MOUNT_VAR_RUN_SECRETS_KUBERNETES_IO_SERVICEACCOUNT"
place = "/var/run/secrets/kubernetes.io/serviceaccount"
import kubernetes as k
from kubernetes.config.incluster_config import InClusterConfigLoader
if os.geteuid() == 0:
    k.config.load_incluster_config()
else:
    where = os.environ[base]
    InClusterConfigLoader(where + "/token", where + "/ca.crt").load_and_set()
print("I am", k.client.AuthenticationV1Api().create_self_subject_review({}).status.user_info.username, flush=True)
import time; time.sleep(300)
"""
WHOAMI = f"{Path(sys.executable).parent / 'kubectl'} auth whoami"
"""kubectl finds the API by its pod's variables and token."""


def test_pod_applied_with_its_namespace_runs_as_the_default_account(plane: Plane) -> None:
    """The controllers create the account after the namespace; the API server waits for it."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fresh"}}
    own = {
        **pod("first", shell("a", "exit 0"), restartPolicy="Never"),
        "metadata": {"name": "first", "namespace": "fresh"},
    }
    plane.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [namespace, own]}))
    spec = json.loads(plane.kubectl("get", "pod", "first", "-n", "fresh", "-o", "json"))["spec"]
    assert spec["serviceAccountName"] == "default"
    assert spec["volumes"][0]["name"].startswith("kube-api-access-")
    until(
        "its end",
        lambda: "Succeeded" in plane.kubectl("get", "pod", "first", "-n", "fresh", "-o", "jsonpath={.status.phase}"),
    )
    plane.kubectl("delete", "namespace", "fresh", "--wait=false")


def test_pods_as_users_write_them(plane: Plane) -> None:
    """Services by variables, a client of the API inside, kubectl debug, a resize: one pod."""
    service = {"clusterIP": "10.96.0.10", "ports": [{"name": "sql", "port": 5432}]}
    plane.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "my-db"}, "spec": service})
    app = {
        "name": "app",
        "image": "busybox:1",
        "command": [sys.executable, "-c", IN_CLUSTER],
        "resources": {"requests": {"cpu": "100m"}},
    }
    asked = {
        "sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}],
        "seccompProfile": {"type": "RuntimeDefault"},  # the embedded runtime has none
    }
    env = shell("env", "env; exec sleep 300")
    extra = [shell("kubectl", f"HOME=/tmp {WHOAMI}; exec sleep 300")] if os.geteuid() == 0 else []
    plane.apply(pod("people", app, env, *extra, securityContext=asked))
    plane.pod_ready("people")
    until(
        "who it is",
        lambda: "I am system:serviceaccount:default:default" in plane.kubectl("logs", "people", "-c", "app"),
    )
    if extra:
        until(
            "who kubectl is",
            lambda: "system:serviceaccount:default:default" in plane.kubectl("logs", "people", "-c", "kubectl"),
        )
    assert plane.kubectl("get", "svc", "kubernetes", "-o", "jsonpath={.spec.clusterIP}") == "10.96.0.1"
    wanted = {"MY_DB_SERVICE_HOST=10.96.0.10", "MY_DB_PORT=tcp://10.96.0.10:5432", "KUBERNETES_SERVICE_HOST=127.0.0.1"}
    until("its environment", lambda: wanted <= set(plane.kubectl("logs", "people", "-c", "env").splitlines()))
    debugger = {"name": "dbg", "image": "box:1", "command": ["sh", "-c", "exit 3"], "targetContainerName": "app"}
    patch_pod(plane, "ephemeralcontainers", {"ephemeralContainers": [debugger]})
    patch_pod(plane, "resize", {"containers": [{"name": "app", "resources": {"requests": {"cpu": "200m"}}}]})

    def changed() -> Any:
        status = plane.get("pod", "people")["status"]
        ended = [c["state"].get("terminated", {}).get("exitCode") for c in status.get("ephemeralContainerStatuses", ())]
        sizes = [c["resources"]["requests"]["cpu"] for c in status["containerStatuses"] if c.get("resources")]
        return (ended, sizes) == ([3], ["200m"]) and status

    status = until("debugged and resized", changed)
    assert {c["restartCount"] for c in status["containerStatuses"]} == {0}
    until("its events", lambda: {"NotEnforced", "ResizeCompleted"} <= events_of(plane, "people"), every=0.2)
    plane.kubectl("delete", "pod/people", "service/my-db", "--wait=false")


def patch_pod(plane: Plane, subresource: str, spec: Object) -> None:
    plane.kubectl("patch", "pod", "people", "--subresource", subresource, "-p", json.dumps({"spec": spec}))


def test_how_pods_end(plane: Plane) -> None:
    plane.apply(pod("done", shell("a", "exit 0"), restartPolicy="OnFailure"))
    plane.apply(pod("broken", shell("a", "exit 3"), restartPolicy="Never"))
    plane.apply(pod("no-init", shell("a", "exit 0"), inits=[shell("i", "exit 4")], restartPolicy="Never"))
    plane.pod_phase("done", "Succeeded")
    assert container(plane.pod_phase("broken", "Failed"))["state"]["terminated"]["exitCode"] == 3
    assert container(plane.pod_phase("no-init", "Failed"), "i")["state"]["terminated"]["exitCode"] == 4
    kill_podworker(plane)
    plane.settled()
    assert container(plane.get("pod", "broken"))["state"]["terminated"]["exitCode"] == 3
    plane.delete("pod", "done", "broken", "no-init")


@pytest.mark.scenario("S8")
def test_what_cannot_run_says_why(plane: Plane) -> None:
    secret = [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}]
    greedy = sleeper("a", next(TOKENS), resources={"limits": {"example.com/gpu": 9}})
    node = plane.kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
    plane.plugin()
    until("devices", lambda: plane.get("node", node)["status"]["allocatable"].get("example.com/gpu") == "4", every=0.2)
    plane.apply(pod("secretive", shell("a", "exit 0", env=secret)))
    plane.apply(pod("absent", {"name": "a", "image": "busybox:1", "command": ["/no/such/file"]}))
    plane.apply(pod("greedy", greedy, nodeName=node))

    def waiting(name: str) -> Any:
        return container(plane.get("pod", name)).get("state", {}).get("waiting", {})

    error = lambda: [w for w in [waiting("secretive")] if w.get("reason") == "CreateContainerConfigError"]  # noqa: E731
    assert 'secret "x" not found' in until("config error", error, every=0.2)[0]["message"]
    until("back-off", lambda: waiting("absent").get("reason") == "CrashLoopBackOff", every=0.2)
    ended = container(plane.get("pod", "absent"))["lastState"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
    refused = plane.pod_phase("greedy", "Failed")["status"]
    assert refused["reason"] == "UnexpectedAdmissionError"
    assert refused["message"].startswith("Pod was rejected: Allocate failed due to ")
    plane.delete("pod", "secretive", "absent", "greedy")


def test_what_the_node_has_no_room_for_is_rejected_with_kubelets_reason(plane: Plane) -> None:
    node = plane.kubectl("get", "nodes", "-o", "jsonpath={.items[0].metadata.name}")
    port = {"ports": [{"containerPort": 80, "hostPort": 29_876}]}
    plane.apply(pod("holder", sleeper("a", next(TOKENS), **port), nodeName=node))
    plane.pod_phase("holder", "Running")
    rejected = {
        "NodePorts": pod("same-port", sleeper("a", next(TOKENS), **port), nodeName=node),
        "OutOfcpu": pod("cpus", sleeper("a", next(TOKENS), resources={"requests": {"cpu": 900}}), nodeName=node),
        "NodeAffinity": pod("apart", sleeper("a", next(TOKENS)), nodeName=node, nodeSelector={"zone": "far"}),
    }
    for made in rejected.values():
        plane.apply(made)
    for reason, made in rejected.items():
        status = plane.pod_phase(made["metadata"]["name"], "Failed")["status"]
        assert status["reason"] == reason
        assert status["message"].startswith(
            ("Pod was rejected: Node didn't have enough", f"Pod was rejected: Predicate {reason}")
        )
        assert "containerStatuses" not in status
        until("its event", partial(events_of, plane, name_of(made)), good={reason}.issubset)
    plane.kubectl("delete", "pod", "holder", *(made["metadata"]["name"] for made in rejected.values()))


def test_force_delete_while_podworker_is_dead_leaves_no_process(plane: Plane) -> None:
    token = next(TOKENS)
    plane.apply(pod("orphan", sleeper("a", token)))
    plane.pod_ready("orphan")
    assert len(running("sleep", str(token))) == 1
    kill_podworker(plane)
    plane.kubectl("delete", "pod", "orphan", "--force", "--grace-period=0")
    until("the orphan's end", lambda: not running("sleep", str(token)))
    plane.settled()

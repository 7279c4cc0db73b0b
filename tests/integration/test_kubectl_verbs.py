"""One session with kubectl, verb by verb, and one with the Python client: both as they are, against real processes."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.apiserver_plane import Plane, running_plane
from tests.support.engine import etcd_if_there

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}, "data": {"a": "1"}}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "x"}]},
}


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """An API server with a node."""
    with running_plane(store=etcd_if_there()) as started:
        started.kubectl("create", "-f", "-", stdin=json.dumps(NODE))
        yield started


def test_apply_get_describe_explain(plane: Plane) -> None:
    assert plane.kubectl("apply", "-f", "-", stdin=json.dumps(MAP)) == "configmap/m created\n"
    assert (
        plane.kubectl("apply", "-f", "-", stdin=json.dumps({**MAP, "data": {"a": "2"}})) == "configmap/m configured\n"
    )
    assert plane.kubectl("get", "cm", "m", "-o", "jsonpath={.data.a}") == "2"
    assert "a:" in plane.kubectl("describe", "cm", "m")
    assert "ConfigMap" in plane.kubectl("explain", "configmap.data")
    assert "pods" in plane.kubectl("api-resources", "--namespaced=true")
    assert "admin" in plane.kubectl("auth", "whoami")
    assert plane.kubectl("auth", "can-i", "delete", "pods") == "yes\n"


def test_a_list_is_applied(plane: Plane) -> None:
    each = [{**MAP, "metadata": {"name": f"l{number}"}} for number in range(2)]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": each})
    assert plane.kubectl("apply", "-f", "-", stdin=listed) == "configmap/l0 created\nconfigmap/l1 created\n"
    assert plane.kubectl("delete", "-f", "-", stdin=listed).count("deleted") == 2


def test_patches_labels_and_annotations(plane: Plane) -> None:
    plane.kubectl("create", "configmap", "patched", "--from-literal=a=1")
    for kind, patch in (
        ("strategic", '{"data":{"b":"1"}}'),
        ("merge", '{"data":{"c":"1"}}'),
        ("json", '[{"op":"add","path":"/data/d","value":"1"}]'),
    ):
        assert "patched" in plane.kubectl("patch", "cm", "patched", "--type", kind, "-p", patch)
    plane.kubectl("label", "cm", "patched", "x=y")
    plane.kubectl("annotate", "cm", "patched", "note=z")
    found = json.loads(plane.kubectl("get", "cm", "patched", "-o", "json"))
    assert sorted(found["data"]) == ["a", "b", "c", "d"]
    assert found["metadata"]["labels"] == {"x": "y"}
    assert found["metadata"]["annotations"]["note"] == "z"


def kubectl_with(plane: Plane, editor: str, *arguments: str) -> str:
    command = [*plane.command(), *arguments]
    environment = {**plane.environment, "KUBE_EDITOR": editor}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=90).stdout


def test_edit(plane: Plane) -> None:
    plane.kubectl("create", "configmap", "edited", "--from-literal=a=before")
    assert "edited" in kubectl_with(plane, "sed -i s/before/after/", "edit", "cm", "edited")
    assert plane.kubectl("get", "cm", "edited", "-o", "jsonpath={.data.a}") == "after"


def test_watch_wait_and_delete(plane: Plane) -> None:
    command = [*plane.command(), "get", "cm", "watched", "-w", "-o", "name"]
    plane.kubectl("create", "configmap", "watched")
    watch = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=plane.environment)
    try:
        assert watch.stdout is not None
        assert watch.stdout.readline() == "configmap/watched\n"
        waiting = [*plane.command(), "wait", "--for=delete", "cm/watched", "--timeout=60s"]
        waiter = subprocess.Popen(waiting, stdout=subprocess.PIPE, text=True, env=plane.environment)
        plane.kubectl("delete", "cm", "watched")
        assert waiter.wait(90) == 0
        assert watch.stdout.readline() == "configmap/watched\n"
        waiter.stdout.close() if waiter.stdout else None
    finally:
        watch.kill()
        watch.wait(30)
        if watch.stdout:
            watch.stdout.close()


def test_wait_for_a_condition(plane: Plane) -> None:
    plane.kubectl("create", "-f", "-", stdin=json.dumps(POD))
    status = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    plane.kubectl("patch", "pod", "p", "--subresource=status", "--type=merge", "-p", status)
    assert "condition met" in plane.kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=60s")
    plane.kubectl("delete", "pods", "--all")
    assert plane.kubectl("get", "pods", "-o", "name") == ""


def test_events(plane: Plane) -> None:
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Told",
        "message": "so it was",
        "type": "Normal",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    plane.kubectl("create", "-f", "-", stdin=json.dumps(event))
    assert "so it was" in plane.kubectl("events", "--for", "pod/p")
    assert "Told" in plane.kubectl("get", "events")


def test_cordon_taint_drain(plane: Plane) -> None:
    assert plane.kubectl("cordon", "n1") == "node/n1 cordoned\n"
    assert "SchedulingDisabled" in plane.kubectl("get", "nodes")
    assert "uncordoned" in plane.kubectl("uncordon", "n1")
    assert "tainted" in plane.kubectl("taint", "nodes", "n1", "k=v:NoSchedule")
    assert "untainted" in plane.kubectl("taint", "nodes", "n1", "k-")
    assert "drained" in plane.kubectl("drain", "n1", "--ignore-daemonsets", "--force", "--delete-emptydir-data")


CLIENT = """
import sys, threading
from kubernetes import client, config, watch
config.load_kube_config(sys.argv[1])
api = client.CoreV1Api()
body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="py"), data={"a": "1"})
made = api.create_namespaced_config_map("default", body)
assert (made.kind, made.api_version) == ("ConfigMap", "v1")
version = made.metadata.resource_version
assert "py" in [each.metadata.name for each in api.list_namespaced_config_map("default").items]
api.patch_namespaced_config_map("py", "default", {"data": {"b": "2"}})
field = "metadata.name=py"
first = watch.Watch()
for event in first.stream(api.list_namespaced_config_map, "default", field_selector=field, resource_version=version):
    assert event["type"] == "MODIFIED" and event["object"].data == {"a": "1", "b": "2"}, event
    break
resumed = first.resource_version
api.delete_namespaced_config_map("py", "default")
for event in watch.Watch().stream(api.list_namespaced_config_map, "default", field_selector=field,
                                  resource_version=resumed, timeout_seconds=60):
    assert event["type"] == "DELETED", event
    break
else:
    raise SystemExit("no event after the resumption")
try:
    api.read_namespaced_config_map("py", "default")
except client.ApiException as error:
    assert error.status == 404, error
print("done")
"""


def test_the_python_client(plane: Plane) -> None:
    """In a process of its own: the library takes a while to import, and leaves threads."""
    command = [sys.executable, "-c", CLIENT, str(plane.root / "kubeconfig")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "done\n", done.stderr

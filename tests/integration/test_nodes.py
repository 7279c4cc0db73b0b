"""Several nodes on one plane: by `--nodes`, or joined by a file; pods, devices, claims, logs, faults, recording."""

import base64
import http.client
import json
import os
import re
import signal
import ssl
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from protocols.kube.meta import Object
from protocols.messages.devices import DRA_DRIVERS
from protocols.recording import sources
from protocols.recording.reader import Recording
from supervisor.pki.certificates import Wanted
from supervisor.pki.issue import issue
from tests.support.commands import run_command
from tests.support.insults import refused
from tests.support.mistreat import pids
from tests.support.plane import Plane, condition, until

DRIVER, GPU = "gpu.example.com", "example.com/gpu"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nodes") / "plane.npr"


@pytest.fixture(scope="module")
def plane(recording: Path) -> Iterator[Plane]:
    """Nodes n1 and n1-2 of the plane, and n3 that joined from a root of its own below the plane's."""
    with Plane("--node-name", "n1", "--nodes", "2", "--record", str(recording)) as plane:
        plane.nodeplane("node-config", "n3", "-o", str(plane.root / "n3.kubeconfig"))
        join(plane, "n3.kubeconfig")
        yield plane
        plane.nodeplane("--root", str(joined(plane)), "down", timeout=100)


def joined(plane: Plane) -> Path:
    return plane.root / "j"


def join(plane: Plane, file: str = "", root: str = "j", check: bool = True) -> str:
    flags = ["--join", str(plane.root / file)] if file else []
    start = ["--root", str(plane.root / root), "up", "--detach", "--metrics-port", "0", *flags]
    return plane.nodeplane(*start, timeout=100, check=check)


def refusal(plane: Plane, file: str) -> str:
    words = ("--root", str(plane.root / "x"), "up", "--detach", "--metrics-port", "0", "--join", str(plane.root / file))
    return refused(*words, environment=plane.environment)[1]


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "busybox", "command": ["sh", "-c", f"echo I am {name}; sleep 1000"]}
    container["resources"] = spec.pop("resources", {})
    whole = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


def on(node: str) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def runs_on(plane: Plane, name: str) -> str:
    return str(plane.pod_ready(name)["spec"]["nodeName"])


@pytest.fixture(scope="module")
def pods(plane: Plane) -> Plane:
    """Pods `first`, `claims` that uses the claim of a device of n1-2, and `plugs` with a plugin's device of n3."""
    second, third = plane.root / "nodes" / "n1-2", joined(plane)
    plane.start("--root", str(third), "plugin", "--resource", GPU, "--devices", "2", log="log")
    plane.start("--root", str(second), "dra-driver", "--driver", DRIVER, "--devices", "1", log="log")
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu"}}
    made: list[tuple[str, str, Object]] = [
        ("DeviceClass", "gpu", {"spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}}),
        ("ResourceClaim", "one", {"spec": {"devices": {"requests": [request]}}}),
    ]
    for kind, name, rest in made:
        plane.apply({"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **rest})
    uses = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}]}
    plane.apply(pod("claims", resources={"claims": [{"name": "gpu"}]}, **uses))
    plane.apply(pod("plugs", resources={"limits": {GPU: "1"}}))
    plane.apply(pod("first", **on("n1")))
    return plane


def test_pods_go_to_the_node_that_has_what_they_want(pods: Plane) -> None:
    plane = pods
    assert runs_on(plane, "first") == "n1"
    assert runs_on(plane, "plugs") == "n3"
    assert runs_on(plane, "claims") == "n1-2"
    for name in ("first", "claims", "plugs"):
        until("its word", partial(plane.kubectl, "logs", name), every=0.2, good=re.compile(f"I am {name}").search)
        assert plane.kubectl("exec", name, "--", "echo", "hello").strip() == "hello"


def why(plane: Plane, target: str, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plane.nodeplane("why", target, "-o", "json", *words))
    return found


def test_why_knows_a_pod_where_it_runs_and_says_so_elsewhere(pods: Plane) -> None:
    plane, second = pods, str(pods.root / "nodes" / "n1-2")
    assert (runs_on(plane, "first"), runs_on(plane, "plugs")) == ("n1", "n3")
    there = why(plane, "pod/plugs", "--root", str(joined(plane)))
    assert (there["state"], holding(there)) == ("running", there)
    assert why(plane, f"plugin/{GPU}", "--root", str(joined(plane)))["state"] == "serves"
    assert why(plane, f"plugin/{DRIVER}", "--root", second)["state"] == "serves"
    assert why(plane, f"plugin/{DRIVER}")["state"] == "serves"
    assert why(plane, "pod/first", "--root", second)["state"] == "running"
    elsewhere = run_command(["why", f"plugin/{GPU}"], plane.environment)
    assert f"{GPU} is offered by node n3, which runs elsewhere" in elsewhere.stderr
    plane.apply(pod("large", resources={"requests": {"cpu": "9999"}, "limits": {GPU: "1"}}))
    reason = until("its reason", lambda: named(why(plane, "pod/large")["reason"]))
    assert "nodes n1, n1-2, n3: Insufficient cpu: requested 9999, free " in reason
    assert f"nodes n1, n1-2: Insufficient {GPU}: requested 1, the node has none" in reason
    assert "no plugin has registered" not in reason


def named(reason: str) -> str:
    return reason if "no node can run it" in reason else ""


def test_why_beside_an_adopted_kubelet_needs_an_access_to_its_cluster(pods: Plane) -> None:
    plane, near = pods, joined(pods)
    root = ("--root", str(plane.root / "a"))
    sockets = ["--pod-resources", str(near / "kubelet" / "pod-resources" / "kubelet.sock")]
    sockets += ["--runtime", str(near / "runtime" / "runtime.sock")]
    assert runs_on(plane, "plugs") == "n3"
    plane.nodeplane(*root, "adopt", "--detach", "--metrics-port", "0", *sockets, timeout=100)
    try:
        refused = run_command([*root, "why", "pod/plugs"], plane.environment)
        assert (refused.returncode, "give --kubeconfig FILE" in refused.stderr) == (2, True)
        access = ("--kubeconfig", str(plane.root / "kubeconfig"), *root)
        found = until("its device", lambda: holding(why(plane, "pod/plugs", *access)))
        assert found["state"] == "running"
        assert why(plane, "node/n3", *access)["state"] == "ready"
    finally:
        plane.nodeplane(*root, "down", timeout=100)


def holding(found: dict[str, Any]) -> dict[str, Any]:
    held = [line for line in found["evidence"] if line.startswith(f"holds {GPU} ") and line.endswith(", Healthy")]
    return found if held else {}


def test_recording_has_what_happened_on_a_further_node(pods: Plane, recording: Path) -> None:
    until("calls, log and metrics of n1-2", lambda: has_further_node(Recording(recording)), 40, every=0.5)
    assert pods.nodeplane("why", "pod/claims", "--replay", str(recording)).startswith("pod/default/claims: running")


def has_further_node(found: Recording) -> bool:
    state, prefix = found.state(found.end_ms), "n1-2/"
    called = {entry.key for entry, _ in found.entries((prefix + sources.CALLS,), found.end_ms)}
    logged = any("I am claims" in lines for lines in state.get(prefix + sources.LOGS, {}).values())
    drivers = state.get(f"{prefix}devices/{DRA_DRIVERS}", {})
    return DRIVER in called and DRIVER in drivers and logged and "cri" in state.get(prefix + sources.METRICS, {})


def test_nodes_serving_certificates_are_no_certificates_of_the_api(plane: Plane) -> None:
    """Whoever has a node's key cannot play the API to those who trust ROOT/kubeconfig; and all nodes are reached."""
    for root, name in ((plane.root, "n1"), (plane.root / "nodes" / "n1-2", "n1-2"), (joined(plane), "n3")):
        for address in ("127.0.0.1", "localhost", "kubernetes", name):
            assert "not valid for" in told_by(root, address, plane.root)
    usage = ("top", "nodes", "--no-headers")
    until("usage of all nodes", lambda: plane.kubectl(*usage, check=False).count("\n") == 3, every=0.2)


def told_by(root: Path, name: str, trusts: Path) -> str:
    """What a client of the plane `trusts` says of a server with the pair that the node of `root` serves with."""
    serves = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serves.load_cert_chain(root / "pki" / "node-serving.crt", root / "pki" / "node-serving.key")
    config = yaml.safe_load((trusts / "kubeconfig").read_text())
    ca = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"])
    client = ssl.create_default_context(cadata=ca.decode())
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    asking = client.wrap_bio(theirs, ours, server_hostname=name)
    answering = serves.wrap_bio(ours, theirs, server_side=True)
    for _ in range(3):
        for side in (asking, answering):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
    return "a good server"


def test_a_node_writes_itself_only(plane: Plane) -> None:
    access = ["--kubeconfig", str(joined(plane) / "kubeconfig")]
    plane.kubectl(*access, "annotate", "node", "n3", "mine=yes")
    with pytest.raises(AssertionError, match="forbidden"):
        plane.kubectl(*access, "annotate", "node", "n1", "mine=yes")


def test_a_failed_join_is_a_one_line_error(plane: Plane) -> None:
    assert "node name 'n3' is taken: a node at" in refusal(plane, "n3.kubeconfig")
    assert "which is no node" in refusal(plane, "kubeconfig")
    text = (plane.root / "n3.kubeconfig").read_text()
    (plane.root / "n4.kubeconfig").write_text(text.replace("system:node:n3", "system:node:n4"))
    assert "knows this node as 'system:node:n3'" in refusal(plane, "n4.kubeconfig")
    plane.nodeplane("node-config", "n5", "-o", str(plane.root / "n5.kubeconfig"))
    line = next(line for line in text.splitlines() if "certificate-authority-data" in line)
    (plane.root / "pki2").mkdir()
    strange = strange_ca(plane.root / "pki2")
    (plane.root / "n6.kubeconfig").write_text(text.replace(line, f"    certificate-authority-data: {strange}"))
    assert "another CA signed it" in refusal(plane, "n6.kubeconfig")


def test_node_with_a_kubelets_file_joins_and_is_reachable_where_it_says(plane: Plane) -> None:
    """As behind a kube-apiserver: the file has no serving pair, so the node signs one for its address itself."""
    plane.nodeplane("kubeconfig", "--for", "kubelet", "--node", "n9", "-o", str(plane.root / "n9.kubeconfig"))
    join(plane, "n9.kubeconfig", "k")
    try:
        status = until("n9 is Ready", lambda: ready(plane.get("node", "n9")))
        assert "ExtendWebSocketsToKubelet" in status["declaredFeatures"]
        address = next(each["address"] for each in status["addresses"] if each["type"] == "InternalIP")
        port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        context = ssl.create_default_context(cafile=str(plane.root / "k" / "pki" / "node-serving.crt"))
        layout = plane.root / "pki" / "apiserver-kubelet-client"
        context.load_cert_chain(f"{layout}.crt", f"{layout}.key")
        connection = http.client.HTTPSConnection(address, port, timeout=60, context=context)
        connection.request("GET", "/containerLogs/default/none/main")
        assert connection.getresponse().status == 404
        connection.close()
    finally:
        plane.nodeplane("--root", str(plane.root / "k"), "down", timeout=100)
        plane.kubectl("delete", "node", "n9", check=False)


def ready(node: dict[str, Any]) -> dict[str, Any]:
    return dict(node["status"]) if condition(node, "Ready") == "True" else {}


def strange_ca(directory: Path) -> str:
    issue(directory, Wanted(()))
    return base64.b64encode((directory / "ca.crt").read_bytes()).decode()


def test_nodes_come_back_from_kill_9(pods: Plane) -> None:
    plane = pods
    assert (runs_on(plane, "plugs"), runs_on(plane, "claims")) == ("n3", "n1-2")
    worker = until("it lives", lambda: plane_status(plane, joined(plane))["podworker"]["pid"])
    group = pids(plane, ["node-2"])["node-2"]
    before = {
        name: plane.get("pod", name)["status"]["containerStatuses"][0]["containerID"] for name in ("claims", "plugs")
    }
    os.kill(worker, signal.SIGKILL)
    os.kill(group, signal.SIGKILL)
    until("both are back", lambda: serves(plane.status(), "node-2", group))
    until("the joined one too", lambda: serves(plane_status(plane, joined(plane)), "podworker", worker))
    plane.apply(pod("later", **on("n3")))
    plane.apply(pod("later-2", **on("n1-2")))
    assert (runs_on(plane, "later"), runs_on(plane, "later-2")) == ("n3", "n1-2")
    assert {name: container(plane, name)["containerID"] for name in before} == before, "they went on"


def container(plane: Plane, pod: str) -> dict[str, Any]:
    return dict(plane.get("pod", pod)["status"]["containerStatuses"][0])


def serves(status: dict[str, dict[str, Any]], name: str, was: int) -> bool:
    found = status.get(name, {"pid": 0})
    return found["pid"] not in (0, was) and found["state"] in ("ready", "live")


def plane_status(plane: Plane, root: Path) -> dict[str, dict[str, Any]]:
    answer = json.loads(plane.nodeplane("--root", str(root), "status", "-o", "json"))
    return {actor["instance"]: actor for actor in answer["actors"]}


def test_a_node_that_joined_goes_on_where_it_was(pods: Plane) -> None:
    plane = pods
    assert runs_on(plane, "plugs") == "n3"
    root = joined(plane)
    plane.nodeplane("--root", str(root), "down", "--keep-containers", timeout=100)
    assert "ready in" in join(plane), "no file is needed the second time"
    assert set(plane_status(plane, root)) == {"runtime", "cri", "pleg", "devices", "podworker", "health", "frontdoor"}
    assert container(plane, "plugs")["restartCount"] == 0
    say = ("exec", "plugs", "--", "echo", "hello")
    until("its node reached", lambda: plane.kubectl(*say, check=False).strip() == "hello", every=0.2)


def test_nodes_are_scaled(pods: Plane) -> None:
    plane = pods
    assert runs_on(plane, "claims") == "n1-2"
    plane.nodeplane("scale", "node", "1", timeout=100)
    assert "node-2" not in plane.status()
    plane.nodeplane("scale", "node", "2", timeout=100)
    until("it is back", lambda: serves(plane.status(), "node-2", 0))
    assert runs_on(plane, "claims") == "n1-2"

"""kubelet's pages of a plane's node: who may read them, and what they show."""

import http.client
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.plane import Plane, until
from tests.support.ports import free_port

HEALTHZ_PORT = free_port()
PAGES = ("pods", "runningpods/", "configz", "healthz", "metrics", "metrics/resource", "stats/summary")
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "scraper"},
    "rules": [{"apiGroups": [""], "resources": ["nodes/metrics", "nodes/configz"], "verbs": ["get"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "scraper"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scraper"},
    "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": "default"}],
}


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with Plane("--node-name", "n1", "--healthz-port", str(HEALTHZ_PORT)) as running:
        running.kubectl("create", "serviceaccount", "scraper")
        running.apply(ROLE)
        running.apply(BINDING)
        probe = {"exec": {"command": ["true"]}, "periodSeconds": 1}
        container = {"name": "a", "image": "busybox:1", "command": ["sh", "-c", "sleep 1000"], "readinessProbe": probe}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
        running.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": spec})
        running.pod_ready("web")
        yield running


def ask(plane: Plane, page: str, token: str = "", user: str = "") -> tuple[int, str]:
    port = int((plane.root / "run" / "node-endpoint.port").read_text())
    context = ssl.create_default_context(cafile=str(plane.root / "pki" / "ca.crt"))
    context.check_hostname = False  # the certificate has the node's name
    if user:
        context.load_cert_chain(plane.root / "pki" / f"{user}.crt", plane.root / "pki" / f"{user}.key")
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
    try:
        connection.request("GET", f"/{page}", headers={"Authorization": f"Bearer {token}"} if token else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_token_reads_the_pages_that_its_rights_name(plane: Plane) -> None:
    token = plane.kubectl("create", "token", "scraper").strip()
    codes = {page: ask(plane, page, token)[0] for page in PAGES}
    allowed = ("configz", "metrics", "metrics/resource")
    assert codes == {page: 200 if page in allowed else 403 for page in PAGES}
    assert ask(plane, "metrics", "forged")[0] == 401
    assert ask(plane, "metrics")[0] == 401
    text = ask(plane, "pods", token)[1]
    assert "verb=get, resource=nodes, subresource(s)=[pods proxy]" in text


def test_administrator_reads_every_page(plane: Plane) -> None:
    assert {page: ask(plane, page, user="admin")[0] for page in PAGES} == dict.fromkeys(PAGES, 200)


def test_pods_and_configuration_are_those_of_the_node(plane: Plane) -> None:
    pods = json.loads(ask(plane, "pods", user="admin")[1])
    assert (pods["kind"], [pod["metadata"]["name"] for pod in pods["items"]]) == ("PodList", ["web"])
    assert pods["items"][0]["status"]["phase"] == "Running"
    running = json.loads(ask(plane, "runningpods/", user="admin")[1])["items"]
    assert [(pod["metadata"]["name"], pod["spec"]["containers"][0]["name"]) for pod in running] == [("web", "a")]
    config = json.loads(ask(plane, "configz", user="admin")[1])["kubeletconfig"]
    assert config["port"] == int((plane.root / "run" / "node-endpoint.port").read_text())
    assert (config["cpuManagerPolicy"], config["healthzPort"]) == ("none", HEALTHZ_PORT)


def test_metrics_have_kubelets_names_without_ours(plane: Plane) -> None:
    text = ask(plane, "metrics", user="admin")[1]
    families = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    wanted = {"kubelet_pleg_relist_duration_seconds", "kubelet_running_pods", "kubelet_runtime_operations_total"}
    assert families >= wanted | {"kube_pod_start_time", "process_cpu_seconds_total", "kubelet_node_name"}
    assert not [name for name in families if name.startswith(("nodeplane_", "python_"))]
    assert 'kube_pod_start_time{namespace="default",pod="web",uid="' in text
    resource = ask(plane, "metrics/resource", user="admin")[1]
    assert 'container_cpu_usage_seconds_total{container="a",namespace="default",pod="web"}' in resource
    assert "resource_scrape_error 0" in resource
    probes = ask(plane, "metrics/probes", user="admin")[1]
    assert 'prober_probe_total{container="a",namespace="default",pod="web"' in probes
    assert 'probe_type="Readiness",result="successful"} ' in probes
    code, text = ask(plane, "metrics/cadvisor", user="admin")
    assert (code, "/metrics/resource" in text) == (404, True)


def healthz(path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", HEALTHZ_PORT, timeout=30)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()


def test_healthz_fails_while_a_socket_of_the_node_is_missing(plane: Plane) -> None:
    assert healthz("/healthz") == (200, "ok")
    assert healthz("/healthz/pod-resources") == (200, "ok")
    socket = Path(plane.root / "kubelet" / "device-plugins" / "kubelet.sock")
    away = socket.with_name("away")
    socket.rename(away)
    try:
        code, text = healthz("/healthz")
        assert (code, "[-]device-plugin failed" in text, "[+]pod-resources ok" in text) == (500, True, True)
    finally:
        away.rename(socket)
    until("healthy again", lambda: healthz("/healthz")[0] == 200)

"""kube-scheduler, kube-controller-manager and kube-apiserver at this plane.

Where their binaries are given (NODEPLANE_KUBE_SCHEDULER=..., and so on) they are run. Everywhere, what they ask for at
their start is asked with their files by the Kubernetes client: a 403 or a 404 there would keep them from starting.
"""

import contextlib
import itertools
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.plane import Plane, stop, until
from tests.support.ports import free_port
from tests.support.program_start import INFORMERS, record, version_of

pytestmark = pytest.mark.heavy

SYSTEM = "/api/v1/namespaces/kube-system"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
PROGRAMS = tuple(INFORMERS)
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {"containers": [{"name": "c", "image": "i", "command": ["sleep", "9"]}]},
}


class Refused(AssertionError):
    """Raised when the API does not do what was asked."""


class Api:
    """Raw requests with a program's file, as the Kubernetes client reads it."""

    def __init__(self, config: Path) -> None:
        import kubernetes  # takes 0.2 s, in every worker that collects this file

        self._client = kubernetes.config.new_client_from_config(str(config))  # type: ignore[no-untyped-call]  # it has no types
        self._pool, self._server = self._client.rest_client.pool_manager, self._client.configuration.host

    def ask(self, method: str, url: str, body: Any = None) -> Any:
        headers = {"Content-Type": "application/json"}
        sent = None if body is None else json.dumps(body)
        answer = self._pool.request(method, f"{self._server}{url}", body=sent, headers=headers, timeout=60)
        if answer.status not in (200, 201):
            raise Refused(f"{method} {url}: {answer.status} {answer.data.decode()}")
        return json.loads(answer.data)

    def watch(self, url: str) -> int:
        """Open a watch and leave it; return the status."""
        answer = self._pool.request("GET", f"{self._server}{url}", preload_content=False, timeout=60)
        status = int(answer.status)
        answer.close()
        return status

    def close(self) -> None:
        self._pool.clear()
        self._client.close()


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    with Plane("--leader-elect", "true") as started:
        for program in PROGRAMS:
            started.nodeplane("kubeconfig", "--for", program, "-o", str(started.root / f"{program}.kubeconfig"))
        yield started


@pytest.fixture(params=PROGRAMS)
def program(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def api(plane: Plane, program: str) -> Iterator[Api]:
    with api_of(plane, program) as made:
        yield made


@contextlib.contextmanager
def api_of(plane: Plane, program: str) -> Iterator[Api]:
    made = Api(plane.root / f"{program}.kubeconfig")
    try:
        yield made
    finally:
        made.close()


def test_program_lists_and_watches_what_its_informers_open(api: Api, program: str) -> None:
    for url in INFORMERS[program]:
        query = "&" if "?" in url else "?"
        listed = api.ask("GET", f"{url}{query}limit=500&resourceVersion=0")
        assert listed["kind"].endswith("List"), url
        version = listed["metadata"]["resourceVersion"]
        options = f"watch=true&allowWatchBookmarks=true&timeoutSeconds=60&resourceVersion={version}"
        assert api.watch(f"{url}{query}{options}") == 200, url


def test_program_reads_the_ca_of_clients(plane: Plane, api: Api) -> None:
    found = api.ask("GET", f"{SYSTEM}/configmaps/extension-apiserver-authentication")
    assert found["data"]["client-ca-file"] == (plane.root / "pki" / "ca.crt").read_text()
    assert found["data"]["requestheader-client-ca-file"] == (plane.root / "pki" / "front-proxy-ca.crt").read_text()
    assert json.loads(found["data"]["requestheader-allowed-names"]) == ["front-proxy-client"]


def test_program_delegates_authentication_and_authorization(api: Api) -> None:
    token = api.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "none"}})
    assert not token["status"].get("authenticated")
    spec = {"user": "somebody", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    review = api.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    assert review["status"]["allowed"] is False


def test_program_records_events(api: Api, program: str) -> None:
    meta = {"name": f"{program}.1", "namespace": "default"}
    regarding = {"kind": "Pod", "namespace": "default", "name": "p", "apiVersion": "v1"}
    new = {"metadata": meta, "eventTime": "2026-01-01T00:00:00.000000Z", "action": "Binding", "reason": "Scheduled",
           "regarding": regarding, "type": "Normal", "note": "x", "reportingController": program,
           "reportingInstance": "host"}  # fmt: skip
    assert api.ask("POST", "/apis/events.k8s.io/v1/namespaces/default/events", new)["reason"] == "Scheduled"
    named = {**meta, "name": f"{program}.2"}
    old = {"metadata": named, "involvedObject": regarding, "reason": "LeaderElection", "type": "Normal", "message": "x",
           "source": {"component": program}}  # fmt: skip
    assert api.ask("POST", "/api/v1/namespaces/default/events", old)["reason"] == "LeaderElection"


def rules(plane: Plane, role: str) -> list[Any]:
    return list(json.loads(plane.kubectl("get", "clusterrole", role, "-o", "json"))["rules"])


def questions(rule: Any) -> Iterator[dict[str, Any]]:
    """Every single permission of a rule."""
    names = rule.get("resourceNames", [""])
    for verb, group, resource, name in itertools.product(rule["verbs"], rule["apiGroups"], rule["resources"], names):
        plural, _, sub = resource.partition("/")
        yield {"verb": verb, "group": group, "resource": plural, "subresource": sub, "name": name}


def test_program_may_do_what_its_role_says(plane: Plane, api: Api, program: str) -> None:
    asked = [question for rule in rules(plane, f"system:{program}") for question in questions(rule)]
    for attributes in asked:
        spec = {"resourceAttributes": attributes}
        answer = api.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {"spec": spec})
        assert answer["status"]["allowed"] is True, attributes
    assert len(asked) > 10


def test_scheduler_file_binds_a_pod(plane: Plane) -> None:
    """A pod of another scheduler, so that ours leaves it alone."""
    node = json.loads(plane.kubectl("get", "nodes", "-o", "json"))["items"][0]["metadata"]["name"]
    spec = {**POD["spec"], "schedulerName": "other"}  # type: ignore[dict-item]
    plane.apply({**POD, "metadata": {"name": "bound"}, "spec": spec})
    with api_of(plane, "kube-scheduler") as api:
        body = {"metadata": {"name": "bound"}, "target": {"kind": "Node", "name": node}}
        api.ask("POST", "/api/v1/namespaces/default/pods/bound/binding", body)
        with pytest.raises(Refused, match=" 403 "):
            api.ask("GET", f"{SYSTEM}/secrets")
    assert plane.get("pod", "bound")["spec"]["nodeName"] == node


def test_controller_manager_file_makes_tokens_for_its_controllers(plane: Plane) -> None:
    """With --use-service-account-credentials each controller has an account of its own, with a role of its own."""
    with api_of(plane, "kube-controller-manager") as api:
        account = {"metadata": {"name": "replicaset-controller", "namespace": "kube-system"}}
        api.ask("POST", f"{SYSTEM}/serviceaccounts", account)
        path = f"{SYSTEM}/serviceaccounts/replicaset-controller/token"
        token = api.ask("POST", path, {"spec": {"audiences": [], "expirationSeconds": 3600}})["status"]["token"]
    allowed = ["--token", token, "auth", "can-i", "create", "pods"]
    config = plane.root / "token.kubeconfig"
    text = (plane.root / "kube-scheduler.kubeconfig").read_text()
    config.write_text("\n".join(line for line in text.splitlines() if "client-" not in line))
    assert plane.kubectl("--kubeconfig", str(config), *allowed).strip() == "yes"


def holder(plane: Plane, lease: str) -> str:
    return str(plane.get("lease", lease, "kube-system").get("spec", {}).get("holderIdentity", ""))


def note(plane: Plane, actor: str) -> str:
    return str((plane.status()[actor]["beat"] or {}).get("note", ""))


ACTORS = {"kube-scheduler": "scheduler", "kube-controller-manager": "controllers"}


def test_lease_is_handed_over_to_the_program_and_back(plane: Plane, api: Api, program: str) -> None:
    actor = ACTORS[program]
    until(f"{actor} leads", lambda: note(plane, actor) == "leads")
    assert holder(plane, program)
    take(api, program, "host_of-the-program")
    until(f"{actor} stands by", lambda: note(plane, actor) == "standing by: host_of-the-program leads")
    take(api, program, "")
    until(f"{actor} leads again", lambda: note(plane, actor) == "leads")
    assert holder(plane, program) not in ("", "host_of-the-program")


def test_workloads_wait_while_another_controller_manager_leads(plane: Plane) -> None:
    labels = {"app": "waits"}
    template = {"metadata": {"labels": labels}, "spec": POD["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    with api_of(plane, "kube-controller-manager") as api:
        take(api, "kube-controller-manager", "host_of-the-program")
        until("ours stand by", lambda: note(plane, "controllers").startswith("standing by: host"))
        plane.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "waits"}, "spec": spec})
        made = ("get", "replicasets,pods", "-l", "app=waits", "-o", "name")
        assert plane.kubectl(*made) == ""
        assert "workload controller started" not in (plane.root / "logs" / "controllers.log").read_text()
        take(api, "kube-controller-manager", "")
    until("ours make its pod", lambda: "pod/waits-" in plane.kubectl(*made))
    plane.kubectl("delete", "deployment", "waits")


def test_restart_lets_another_candidate_lead(plane: Plane, api: Api, program: str) -> None:
    actor, other = ACTORS[program], "host_of-another"
    until(f"{actor} leads", lambda: note(plane, actor) == "leads")
    plane.nodeplane("restart", actor)
    until("the lease is free", lambda: not api.ask("GET", f"{LEASES}/{program}")["spec"].get("holderIdentity"))
    take(api, program, other)
    until(f"{actor} stands by", lambda: note(plane, actor) == f"standing by: {other} leads")
    take(api, program, "")
    until(f"{actor} leads again", lambda: note(plane, actor) == "leads")


def take(api: Api, lease: str, identity: str) -> None:
    """Write the lease as its holder does: it renews and releases it without asking who had it."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    for _ in range(20):
        held = api.ask("GET", f"{LEASES}/{lease}")
        held["spec"] |= {"holderIdentity": identity, "renewTime": stamp, "leaseDurationSeconds": 15 if identity else 1}
        with contextlib.suppress(Refused):  # ours renewed it in between
            api.ask("PUT", f"{LEASES}/{lease}", held)
            return
    raise AssertionError(f"lease {lease} could not be written")


# the programs themselves


def binary(program: str) -> str:
    variable = f"NODEPLANE_{program.upper().replace('-', '_')}"
    if not (path := os.environ.get(variable, "")):
        pytest.skip(f"no {program} is given: set {variable} to its binary")
    return path


@contextlib.contextmanager
def running(plane: Plane, program: str, *flags: str) -> Iterator[str]:
    """Run the program with its file; yield its version."""
    path, config = binary(program), str(plane.root / f"{program}.kubeconfig")
    files = [f"--{kind}kubeconfig={config}" for kind in ("", "authentication-", "authorization-")]
    with (plane.root / f"{program}.log").open("wb") as log:
        process = subprocess.Popen([path, *files, "--secure-port=0", *flags], stdout=log, stderr=log)
    try:
        yield version_of(path)
    finally:
        stop(process)


@contextlib.contextmanager
def leading(plane: Plane, program: str, *flags: str) -> Iterator[str]:
    """Run the program until it has the lease, which a restart of ours hands over."""
    actor = ACTORS[program]
    with running(plane, program, *flags) as version:
        plane.nodeplane("restart", actor)
        until(f"{program} leads", lambda: leads_over(plane, program), 120)
        yield version
    until(f"{actor} leads again", lambda: note(plane, actor) == "leads", 120)


def leads_over(plane: Plane, program: str) -> bool:
    return bool(holder(plane, program)) and "standing by" in note(plane, ACTORS[program])


def test_real_kube_scheduler_binds_pods_and_hands_over(plane: Plane) -> None:
    with leading(plane, "kube-scheduler") as version:
        plane.apply({**POD, "metadata": {"name": "by-kube-scheduler"}})
        until("binding", lambda: plane.get("pod", "by-kube-scheduler").get("spec", {}).get("nodeName"))
    plane.apply({**POD, "metadata": {"name": "by-ours"}})
    until("binding", lambda: plane.get("pod", "by-ours").get("spec", {}).get("nodeName"))
    record("kube-scheduler", version, "at our API", "start, sync, bind a pod, lease taken and given back")


def test_real_kube_controller_manager_works_and_hands_over(plane: Plane) -> None:
    pki = plane.root / "pki"
    flags = (f"--service-account-private-key-file={pki}/sa.key", f"--root-ca-file={pki}/ca.crt",
             "--use-service-account-credentials")  # fmt: skip
    template = {"metadata": {"labels": {"app": "a"}}, "spec": POD["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": template}
    with leading(plane, "kube-controller-manager", *flags) as version:
        plane.kubectl("create", "namespace", "made-there")
        until("a default account", lambda: plane.get("serviceaccount", "default", "made-there"))
        plane.apply({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs"}, "spec": spec})
        until("a pod of the ReplicaSet", lambda: "rs-" in plane.kubectl("get", "pods", "-l", "app=a", "-o", "name"))
        plane.kubectl("delete", "namespace", "made-there", "--timeout=60s")
    tried = "start, sync, accounts of a namespace, pods of a ReplicaSet, end of a namespace, lease taken and given back"
    record("kube-controller-manager", version, "at our API", tried)


def test_real_kube_apiserver_shares_our_store(plane: Plane) -> None:
    path, pki, port = binary("kube-apiserver"), plane.root / "pki", free_port()
    address = (plane.root / "run" / "store.addr").read_text().strip()
    flags = {
        "etcd-servers": f"https://{address}", "etcd-cafile": pki / "etcd" / "ca.crt",
        "etcd-certfile": pki / "apiserver-etcd-client.crt", "etcd-keyfile": pki / "apiserver-etcd-client.key",
        "client-ca-file": pki / "ca.crt", "service-account-key-file": pki / "sa.pub",
        "service-account-signing-key-file": pki / "sa.key", "service-account-issuer": "https://kubernetes.default.svc",
        "cert-dir": plane.root / "kube-apiserver", "secure-port": port, "bind-address": "127.0.0.1",
        "authorization-mode": "Node,RBAC",
    }  # fmt: skip
    with (plane.root / "kube-apiserver.log").open("wb") as log:
        command = [path, *(f"--{name}={value}" for name, value in flags.items())]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    there = ("--server", f"https://127.0.0.1:{port}", "--insecure-skip-tls-verify")
    try:
        until("it is ready", lambda: plane.kubectl(*there, "get", "--raw", "/readyz", check=False) == "ok", 120)
        plane.kubectl(*there, "create", "configmap", "from-there", "--from-literal=a=1")
        assert until("its object", lambda: plane.get("configmap", "from-there"))["data"] == {"a": "1"}
        assert all(actor["state"] == "live" for actor in plane.status().values())
    finally:
        stop(process)
    record("kube-apiserver", version_of(path), "on our store", "start, objects in protobuf read by our API server")

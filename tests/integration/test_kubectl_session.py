"""What else people do with kubectl: every form of output, every way to wait, to change and to ask; and what it says
where this API stops. test_kubectl_verbs.py has the rest of its commands."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.apiserver_plane import Plane, running_plane
from tests.support.plane import until

POD = {"containers": [{"name": "c", "image": "busybox"}]}


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """An API server with a node and a service account."""
    with running_plane() as started:
        started.kubectl("create", "serviceaccount", "default")
        started.kubectl("create", "-f", "-", stdin=manifest("Node", "n1"))
        yield started


def manifest(kind: str, name: str, **parts: object) -> str:
    return json.dumps({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **parts})


def refused(plane: Plane, *arguments: str, stdin: str = "") -> str:
    """What it says of a failure; a crash of kubectl itself is none."""
    told = plane.kubectl(*arguments, stdin=stdin, check=False)
    assert "panic" not in told, told
    return told


@contextmanager
def waiting(plane: Plane, *arguments: str) -> "Iterator[subprocess.Popen[str]]":
    """A `kubectl wait` that must come true by what the block does."""
    command = plane.command("wait", "--timeout=60s", *arguments)
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=plane.environment
    )
    try:
        yield process
        told = process.communicate(timeout=90)[0]
        assert process.returncode == 0, told
    finally:
        process.kill()
        process.wait(20)


def test_output_forms(plane: Plane) -> None:
    for name in ("b", "a", "c"):
        plane.kubectl("run", name, "--image=busybox", "--labels=app=forms", "--restart=Never", "--", "sleep", "1")
    forms = ["get", "pods", "-l", "app=forms"]
    assert plane.kubectl(*forms, "-o", "name").split() == ["pod/a", "pod/b", "pod/c"]
    assert plane.kubectl(*forms, "--chunk-size=1", "-o", "jsonpath={.items[*].metadata.name}") == "a b c"
    columns = plane.kubectl(*forms, "-o", "custom-columns=N:.metadata.name,I:.spec.containers[*].image", "--no-headers")
    assert columns.split() == ["a", "busybox", "b", "busybox", "c", "busybox"]
    assert "Image:  " in plane.kubectl("describe", "pod", "a")
    assert "NOMINATED NODE" in plane.kubectl(*forms, "-o", "wide", "--show-labels")
    assert plane.kubectl(*forms, "--sort-by=.metadata.name", "-o", "go-template={{len .items}}") == "3"
    assert json.loads(plane.kubectl(*forms, "-o", "json"))["kind"] == "List"
    assert plane.kubectl("get", "pods", "-A", "--field-selector", "metadata.name=a", "-o", "name") == "pod/a\n"
    assert plane.kubectl("get", "--raw", "/api/v1/namespaces/default/pods?limit=1").count('"uid"') == 1
    assert plane.kubectl("get", "--raw", "/readyz") == "ok"
    assert "busybox" in plane.kubectl("get", "all", "-o", "yaml")
    assert plane.kubectl("get", "pod/a", "node/n1", "-o", "name") == "pod/a\nnode/n1\n"


def test_server_side_apply_reports_conflicts(plane: Plane) -> None:
    one, other = (manifest("ConfigMap", "shared", data={"a": value}) for value in ("1", "2"))
    apply = ["apply", "--server-side", "-f", "-"]
    plane.kubectl(*apply, "--field-manager=one", stdin=one)
    told = refused(plane, *apply, "--field-manager=two", stdin=other)
    assert 'conflict with "one": .data.a' in told
    assert "--force-conflicts" in told
    plane.kubectl(*apply, "--field-manager=two", "--force-conflicts", stdin=other)
    shown = json.loads(plane.kubectl("get", "cm", "shared", "-o", "json", "--show-managed-fields"))
    assert [entry["manager"] for entry in shown["metadata"]["managedFields"]] == ["two"]
    assert "serverside-applied (server dry run)" in plane.kubectl(*apply, "--dry-run=server", stdin=other)


def test_diff_replace_and_set(plane: Plane) -> None:
    plane.kubectl("apply", "-f", "-", stdin=manifest("ConfigMap", "d", data={"a": "1"}))
    changed = manifest("ConfigMap", "d", data={"a": "2"})
    assert '+  a: "2"' in refused(plane, "diff", "-f", "-", stdin=changed)
    assert plane.kubectl("replace", "-f", "-", stdin=changed) == "configmap/d replaced\n"
    assert "replaced" in plane.kubectl("replace", "--force", "-f", "-", stdin=changed)
    assert "NotFound" in refused(plane, "replace", "-f", "-", stdin=manifest("ConfigMap", "nowhere"))
    plane.kubectl("run", "imaged", "--image=busybox")
    assert plane.kubectl("set", "image", "pod/imaged", "imaged=other") == "pod/imaged image updated\n"
    assert "pod updates may not change fields other than" in refused(plane, "set", "env", "pod/imaged", "A=1")
    plane.kubectl("annotate", "pod", "imaged", "x=y")
    plane.kubectl("annotate", "pod", "imaged", "x-")
    assert "--overwrite is false" in refused(plane, "label", "pod", "imaged", "run=else")


def test_every_way_to_wait(plane: Plane) -> None:
    with waiting(plane, "--for=create", "pod/late"):
        plane.kubectl("run", "late", "--image=busybox")
    with (
        waiting(plane, "--for=condition=Ready", "pod/late"),
        waiting(plane, "--for=jsonpath={.status.phase}=Running", "pod/late"),
    ):
        status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        plane.kubectl("patch", "pod", "late", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    with waiting(plane, "--for=delete", "pods", "--all"):
        plane.kubectl("delete", "pods", "--all", "--wait=false")
    assert "timed out waiting" in refused(plane, "wait", "--for=condition=Ready", "node/n1", "--timeout=100ms")


def test_deleting(plane: Plane) -> None:
    bound = manifest("Pod", "slow", spec={**POD, "nodeName": "n1"})
    plane.kubectl("create", "-f", "-", stdin=bound)
    plane.kubectl("delete", "pod", "slow", "--grace-period=20", "--wait=false")
    assert plane.kubectl("get", "pod", "slow", "-o", "jsonpath={.metadata.deletionGracePeriodSeconds}") == "20"
    assert "Terminating" in plane.kubectl("get", "pod", "slow")
    plane.kubectl("delete", "pod", "slow", "--now", "--wait=false")
    assert plane.kubectl("get", "pod", "slow", "-o", "jsonpath={.metadata.deletionGracePeriodSeconds}") == "1"
    assert "force deleted" in plane.kubectl("delete", "pod", "slow", "--force", "--grace-period=0")
    plane.kubectl("create", "cm", "owner")
    plane.kubectl("delete", "cm", "owner", "--cascade=orphan", "--wait=false")
    assert plane.kubectl("get", "cm", "owner", "-o", "jsonpath={.metadata.finalizers}") == '["orphan"]'
    plane.kubectl("create", "cm", "gone")
    assert "deleted" in plane.kubectl("delete", "cm", "gone", "--cascade=background", "--dry-run=server")
    assert "deleted" in plane.kubectl("delete", "cm", "gone", "missing", "--ignore-not-found")
    assert "NotFound" in refused(plane, "delete", "cm", "gone")


def test_generators_and_who_may_what(plane: Plane) -> None:
    for made in (
        ("namespace", "team"),
        ("secret", "generic", "s", "--from-literal=a=b"),
        ("secret", "docker-registry", "d", "--docker-server=x", "--docker-username=u", "--docker-password=p"),
        ("serviceaccount", "bot"),
        ("role", "reader", "--verb=get,list", "--resource=pods,configmaps"),
        ("rolebinding", "readers", "--role=reader", "--serviceaccount=default:bot"),
        ("clusterrole", "nodes", "--verb=get", "--resource=nodes"),
        ("clusterrolebinding", "nodes", "--clusterrole=nodes", "--user=eve"),
    ):
        assert "created" in plane.kubectl("create", *made)
    token = plane.kubectl("create", "token", "bot", "--duration=20m").strip()
    as_bot = ["--token", token, "--server", plane.url, "--certificate-authority", str(plane.root / "pki" / "ca.crt")]
    command = [plane.command()[0], "--kubeconfig=/dev/null", *as_bot, "get", "secrets"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=plane.environment, check=False)
    assert 'User "system:serviceaccount:default:bot" cannot list resource "secrets"' in done.stderr
    bot = ["--as=system:serviceaccount:default:bot"]
    until("the role in force", lambda: refused(plane, "auth", "can-i", "list", "pods", *bot) == "yes\n", every=0.2)
    assert refused(plane, "auth", "can-i", "delete", "pods", "--as=eve").startswith("no")
    assert "pods" in plane.kubectl("auth", "can-i", "--list", *bot)
    assert json.loads(plane.kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]["username"] == "admin"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": []}
    stdin = json.dumps({**role, "metadata": {"name": "reader", "namespace": "default"}})
    assert "reconciled" in plane.kubectl("auth", "reconcile", "-f", "-", stdin=stdin)


def test_what_the_api_says_of_itself(plane: Plane) -> None:
    assert {"v1", "resource.k8s.io/v1"} <= set(plane.kubectl("api-versions").split())
    assert "pods" in plane.kubectl("api-resources", "--verbs=list,watch", "--api-group=", "-o", "name").split()
    assert "terminationGracePeriodSeconds\t<integer>" in plane.kubectl("explain", "pod.spec", "--recursive")
    assert "GROUP:      coordination.k8s.io" in plane.kubectl("explain", "leases.spec.holderIdentity")
    assert "Server Version: v1.36" in plane.kubectl("version")
    assert "unknown field" in refused(plane, "apply", "-f", "-", stdin=manifest("ConfigMap", "u", dta={}))
    ignoring = ["apply", "--validate=false", "-f", "-"]
    assert "created" in plane.kubectl(*ignoring, stdin=manifest("ConfigMap", "u", dta={}))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("get", "ingress"), 'doesn\'t have a resource type "ingress"'),
        (("create", "ingress", "x", "--rule=a/=b:80"), "could not find the requested resource"),
        (("rollout", "status", "deploy/x"), 'deployments.apps "x" not found'),
        (("certificate", "approve", "x"), 'certificatesigningrequests.certificates.k8s.io "x" not found'),
        (("scale", "cm/u", "--replicas=2"), "could not find the requested resource"),
        (("get", "pods", "--field-selector", "spec.colour=red"), "field label not supported: spec.colour"),
        (("get", "pods", "-l", "a in ("), "unable to parse requirement"),
        (("get", "--raw", "/api/v1/unicorns"), "could not find the requested resource"),
        (("create", "token", "nobody"), 'serviceaccounts "nobody" not found'),
        (("run", "Bad_", "--image=x"), 'metadata.name: Invalid value: "Bad_"'),
    ],
)
def test_kubectl_of_what_is_not_there_says_so(plane: Plane, arguments: tuple[str, ...], text: str) -> None:
    assert text in refused(plane, *arguments)


def test_kubectl_debug_adds_a_container(plane: Plane) -> None:
    plane.kubectl("run", "seen", "--image=busybox")
    plane.kubectl("debug", "seen", "--image=box:1", "--container=d", "--target=seen", "--profile=general")
    added = json.loads(plane.kubectl("get", "pod", "seen", "-o", "json"))["spec"]["ephemeralContainers"]
    assert [(c["name"], c["image"], c["targetContainerName"]) for c in added] == [("d", "box:1", "seen")]
    assert "may not be changed" in refused(
        plane, "debug", "seen", "--image=box:1", "--container=d", "--profile=general"
    )

"""Single requests: options of reads, rules of writes, who may do what; bad input is never a 500 nor a hang."""

import contextlib
import io
import json
import socket
import subprocess
import sys
from typing import Any

import aiohttp
import msgspec
import pytest

from protocols.process.settings import save_settings
from tests.support.apiserver_plane import Plane
from tests.support.shared_fixtures import apiserver_on_each_store
from tests.support.waiting import until_async

PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
JSON = {"Content-Type": "application/json"}

plane = apiserver_on_each_store


def pod(name: str, node: str = "", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i"}]
    full = {"containers": containers, **({"nodeName": node} if node else {}), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": full}


async def ask(
    session: aiohttp.ClientSession, method: str, path: str, body: Any = None, **more: Any
) -> tuple[int, dict[str, Any]]:
    if body is not None and "data" not in more:
        more["data"] = json.dumps(body)
    more.setdefault("headers", {"Content-Type": "application/json"})
    async with session.request(method, path, **more) as answer:
        return answer.status, await answer.json()


BAD: list[tuple[str, str, Any, dict[str, str], int]] = [
    ("GET", f"{PODS}?resourceVersion=x", None, {}, 400),
    ("GET", f"{PODS}?resourceVersion=-1", None, {}, 400),
    ("GET", f"{PODS}?limit=many", None, {}, 400),
    ("GET", f"{PODS}?labelSelector=a%3D%3D%3Db", None, {}, 400),
    ("GET", f"{PODS}?labelSelector=in%20(", None, {}, 400),
    ("GET", f"{PODS}?fieldSelector=spec.colour%3Dred", None, {}, 400),
    ("GET", f"{PODS}?fieldSelector=nothing", None, {}, 400),
    ("GET", f"{PODS}?continue=!!!", None, {}, 400),
    ("GET", f"{PODS}?continue=e30", None, {}, 400),
    ("GET", f"{PODS}?resourceVersionMatch=Exact", None, {}, 422),
    ("GET", f"{PODS}?resourceVersionMatch=Nearly&resourceVersion=1", None, {}, 422),
    ("GET", f"{PODS}?sendInitialEvents=true", None, {}, 422),
    ("GET", f"{PODS}?watch=true&timeoutSeconds=1&sendInitialEvents=true", None, {}, 422),
    ("GET", f"{PODS}?watch=true&timeoutSeconds=1&resourceVersionMatch=NotOlderThan", None, {}, 422),
    ("GET", PODS, None, {"Accept": "text/html"}, 406),
    ("GET", f"{PODS}?includeObject=Half", None, {"Accept": TABLE}, 400),
    ("GET", f"{PODS}/none", None, {}, 404),
    ("GET", "/api/v1/unicorns", None, {}, 404),
    ("GET", "/apis/none.example/v1/x", None, {}, 404),
    ("GET", "/no/such/path", None, {}, 404),
    ("GET", "/api/v1/namespaces/default/nodes", None, {}, 404),
    ("GET", f"{PODS}/a%2Fb", None, {}, 400),
    ("PUT", PODS, {}, {}, 405),
    ("POST", "/api/v1/pods", pod("a"), {}, 405),
    ("POST", f"{PODS}/a", pod("a"), {}, 405),
    ("DELETE", "/api/v1/namespaces", None, {}, 405),
    ("POST", PODS, None, JSON, 400),
    ("POST", PODS, "x", JSON, 400),
    ("POST", PODS, [], JSON, 400),
    ("POST", PODS, {"kind": "Pod"}, JSON, 422),
    ("POST", PODS, {**pod("a"), "kind": "Node"}, JSON, 400),
    ("POST", PODS, {**pod("a"), "metadata": []}, JSON, 400),
    ("POST", PODS, {**pod("a"), "metadata": {"labels": {"a": 1}}}, JSON, 400),
    ("POST", PODS, {**pod("a"), "metadata": {"resourceVersion": "3"}}, JSON, 400),
    ("POST", PODS, {**pod("a"), "spec": []}, JSON, 400),
    ("POST", PODS, {**pod("a"), "spec": {}}, JSON, 422),
    ("POST", PODS, {**pod("a"), "spec": {"containers": [3]}}, JSON, 400),
    ("POST", PODS, {**pod("a"), "spec": {"containers": {"a": 1}}}, JSON, 400),
    ("POST", PODS, pod("Upper"), JSON, 422),
    ("POST", PODS, pod("x" * 300), JSON, 422),
    ("POST", PODS, pod("a", restartPolicy="Maybe"), JSON, 422),
    ("POST", f"{PODS}?dryRun=Some", pod("a"), JSON, 422),
    ("POST", f"{PODS}?fieldValidation=Perhaps", pod("a"), JSON, 422),
    ("POST", PODS, pod("a"), {"Content-Type": "application/vnd.kubernetes.protobuf"}, 400),
    ("POST", PODS, pod("a"), {"Content-Type": "application/cbor"}, 415),
    ("POST", "/api/v1/namespaces/none/pods", pod("a"), JSON, 404),
    ("POST", f"{PODS}/target/binding", {"kind": "Binding", "apiVersion": "v1"}, JSON, 400),
    ("POST", f"{PODS}/target/binding", {"metadata": {"name": "target"}}, JSON, 422),
    ("POST", f"{PODS}/target/eviction", {"kind": "Eviction", "apiVersion": "policy/v1"}, JSON, 400),
    ("DELETE", f"{PODS}/target?resourceVersion=999999", None, JSON, 409),
    ("DELETE", f"{PODS}/target?uid=x", None, JSON, 409),
    ("PATCH", f"{PODS}/none", {}, MERGE, 404),
    ("PATCH", f"{PODS}/target", {}, JSON, 415),
    ("PATCH", f"{PODS}/target", [], MERGE, 400),
    ("PATCH", f"{PODS}/target", {"metadata": {"name": "other"}}, MERGE, 400),
    ("PATCH", f"{PODS}/target", {"kind": "Node"}, MERGE, 422),
    ("PATCH", f"{PODS}/target", {"spec": {"restartPolicy": "Never"}}, MERGE, 422),
    ("PATCH", f"{PODS}/target", {"spec": {"containers": None}}, MERGE, 422),
    ("PATCH", f"{PODS}/target", {"metadata": {"resourceVersion": "1"}}, MERGE, 409),
    ("PATCH", f"{PODS}/target", {"metadata": {"uid": "x"}}, MERGE, 422),
    ("PATCH", f"{PODS}/target?force=true", {}, MERGE, 422),
    ("PATCH", f"{PODS}/target?force=true&fieldManager=m", {}, {"Content-Type": "application/apply-patch+cbor"}, 415),
    ("PATCH", f"{PODS}/target", {}, JSON_PATCH, 400),
    ("PATCH", f"{PODS}/target", [{"op": "test"}], JSON_PATCH, 422),
    ("PATCH", f"{PODS}/target", [{"op": "test", "path": "/kind", "value": 1}], JSON_PATCH, 422),
    ("PATCH", f"{PODS}/target", {"spec": {"containers": [{}]}}, STRATEGIC, 422),
    ("PATCH", f"{PODS}/target", {"$patch": "x"}, STRATEGIC, 422),
    ("DELETE", f"{PODS}/target", {"preconditions": {"uid": "x"}}, JSON, 409),
    ("DELETE", f"{PODS}/target", {"gracePeriodSeconds": "soon"}, JSON, 400),
    ("DELETE", f"{PODS}/target", {"propagationPolicy": "Later"}, JSON, 422),
    ("DELETE", f"{PODS}/none", None, {}, 404),
    ("DELETE", "/api/v1/namespaces/default", None, {}, 403),
]  # fmt: skip


async def test_bad_input_gets_its_status(plane: Plane) -> None:
    async with plane.client() as session:
        await ask(session, "POST", PODS, pod("target"))
        wrong = []
        for method, path, body, headers, wanted in BAD:
            code, status = await ask(session, method, path, body, headers=headers)
            if (code, status.get("kind"), status.get("code")) != (wanted, "Status", wanted):
                wrong.append(f"{method} {path} {body} {headers}: wanted {wanted}, got {code} {status}")
        assert not wrong, "\n".join(wrong)
        assert (await ask(session, "GET", f"{PODS}/target"))[0] == 200


async def test_raw_bodies(plane: Plane) -> None:
    async with plane.client() as session:
        for raw, media, wanted in (
            (b"\xff\xfe", "application/json", 400),
            (b"{" * 5000, "application/json", 400),
            (b"a: &a [1]\nb: *a", "application/yaml", 400),
            (b"{a: b", "application/yaml", 400),
            (b"x" * (3 * 1024 * 1024 + 1), "application/json", 413),
        ):
            headers = {"Content-Type": media}
            code, status = await ask(session, "POST", PODS, data=io.BytesIO(raw), headers=headers)
            assert (code, status["kind"]) == (wanted, "Status")
        made = b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: yaml}\ndata: {d: '2024-01-01'}\n"
        headers = {"Content-Type": "application/yaml"}
        code, found = await ask(session, "POST", CONFIGMAPS, data=made, headers=headers)
        assert (code, found["data"]) == (201, {"d": "2024-01-01"})


@pytest.mark.parametrize("mebibytes", [1.6, 2.5], ids=["told by the store", "told by its gRPC"])
async def test_more_than_the_store_takes_is_refused(plane: Plane, mebibytes: float) -> None:
    command = ["x" * int(mebibytes * 1024 * 1024)]
    body = json.dumps(pod("large", containers=[{"name": "c", "image": "i", "command": command}])).encode()

    async with plane.client() as session:
        code, status = await ask(session, "POST", PODS, data=io.BytesIO(body))
        reason = "RequestEntityTooLarge"
        assert (code, status["reason"], status["message"]) == (413, reason, "etcdserver: request is too large")


async def test_lists_in_pages_show_one_revision(plane: Plane) -> None:
    async with plane.client() as session:
        base = "/apis/resource.k8s.io/v1/deviceclasses"
        for number in range(7):
            body = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": f"c{number}"}}
            assert (await ask(session, "POST", base, {**body, "spec": {}}))[0] == 201
        _, first = await ask(session, "GET", f"{base}?limit=3")
        assert first["metadata"]["remainingItemCount"] == 4
        await ask(session, "DELETE", f"{base}/c2")
        await ask(session, "DELETE", f"{base}/c4")
        names, page = [item["metadata"]["name"] for item in first["items"]], first
        while page["metadata"].get("continue"):
            _, page = await ask(session, "GET", f"{base}?limit=3&continue={page['metadata']['continue']}")
            assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
            names += [item["metadata"]["name"] for item in page["items"]]
        assert names == [f"c{number}" for number in range(7)]
        revision = first["metadata"]["resourceVersion"]
        _, exact = await ask(session, "GET", f"{base}?resourceVersion={revision}&resourceVersionMatch=Exact")
        assert len(exact["items"]) == 7
        latest = f"{base}?limit=3&resourceVersion=0"  # what this process has, which may be the state of a moment ago
        _, now = await until_async(
            "five classes", lambda: ask(session, "GET", latest), good=lambda found: len(found[1]["items"]) == 5
        )
        assert "continue" not in now["metadata"]


async def test_writes_follow_the_rules(plane: Plane) -> None:
    async with plane.client() as session:
        code, made = await ask(session, "POST", PODS, pod("rules", node="n1"))
        assert (code, made["status"]) == (201, {"phase": "Pending", "qosClass": "BestEffort"})
        assert made["metadata"]["generation"] == 1
        assert (await ask(session, "POST", PODS, pod("rules")))[1]["reason"] == "AlreadyExists"
        stale = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
        assert (await ask(session, "PUT", f"{PODS}/rules", stale))[0] == 200
        assert (await ask(session, "PUT", f"{PODS}/rules", stale))[1]["reason"] == "Conflict"
        patched = {"status": {"phase": "Running"}, "spec": {"nodeName": "other"}}
        code, running = await ask(session, "PATCH", f"{PODS}/rules/status", patched, headers=MERGE)
        assert (running["status"]["phase"], running["spec"]["nodeName"]) == ("Running", "n1")
        code, again = await ask(session, "PATCH", f"{PODS}/rules/status", patched, headers=MERGE)
        assert again["metadata"]["resourceVersion"] == running["metadata"]["resourceVersion"]
        code, leaving = await ask(session, "DELETE", f"{PODS}/rules")
        assert (code, leaving["metadata"]["deletionGracePeriodSeconds"]) == (200, 30)
        code, sooner = await ask(session, "DELETE", f"{PODS}/rules", {"gracePeriodSeconds": 5})
        assert sooner["metadata"]["deletionGracePeriodSeconds"] == 5
        final = {"gracePeriodSeconds": 0, "preconditions": {"uid": made["metadata"]["uid"]}}
        assert (await ask(session, "DELETE", f"{PODS}/rules", final))[0] == 200
        assert (await ask(session, "GET", f"{PODS}/rules"))[0] == 404


async def test_binding_finalizers_names_and_dry_run(plane: Plane) -> None:
    async with plane.client() as session:
        named = pod("")
        named["metadata"] = {"generateName": "gen-", "finalizers": ["example.com/hold"]}
        _, made = await ask(session, "POST", PODS, named)
        path = f"{PODS}/{made['metadata']['name']}"
        assert made["metadata"]["name"].startswith("gen-")
        metadata = {"name": made["metadata"]["name"], "labels": {"zone": "a"}}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"name": "n1"}}
        nominated = {"status": {"nominatedNodeName": "n2"}}
        assert (await ask(session, "PATCH", f"{path}/status", nominated, headers=MERGE))[0] == 200
        assert (await ask(session, "POST", f"{path}/binding", binding))[1]["status"] == "Success"
        assert (await ask(session, "POST", f"{path}/binding", binding))[0] == 409
        _, bound = await ask(session, "GET", path)
        assert (bound["spec"]["nodeName"], bound["metadata"]["labels"]) == ("n1", {"zone": "a"})
        assert "nominatedNodeName" not in bound["status"]
        _, held = await ask(session, "DELETE", path, {"gracePeriodSeconds": 0})
        assert held["metadata"]["deletionTimestamp"]
        code, gone = await ask(session, "PATCH", path, {"metadata": {"finalizers": None}}, headers=MERGE)
        assert (code, "finalizers" in gone["metadata"]) == (200, False)
        assert (await ask(session, "GET", path))[0] == 404
        code, dry = await ask(session, "POST", f"{PODS}?dryRun=All", pod("dry"))
        assert (code, "resourceVersion" in dry["metadata"]) == (201, False)
        assert (await ask(session, "GET", f"{PODS}/dry"))[0] == 404


async def test_who_may_do_what(plane: Plane) -> None:
    async with plane.client() as admin:
        for name, node in (("mine", "n1"), ("theirs", "n2")):
            assert (await ask(admin, "POST", PODS, pod(name, node)))[0] == 201
        async with admin.head(f"{PODS}/mine/log") as answer:  # a log would be taken for the next answer
            assert answer.status == 405
    async with plane.client("") as nobody:
        assert (await ask(nobody, "GET", PODS))[1]["reason"] == "Unauthorized"
        assert (await ask(nobody, "GET", "/api"))[0] == 401
        async with nobody.get("/healthz") as answer:
            assert (answer.status, await answer.text()) == (200, "ok")
    async with plane.client("stranger") as stranger:
        code, denied = await ask(stranger, "GET", PODS)
        where = 'resource "pods" in API group "" in the namespace "default"'
        assert (code, denied["message"]) == (403, f'pods is forbidden: User "stranger" cannot list {where}')
        _, denied = await ask(stranger, "POST", "/x")
        assert denied["message"] == 'forbidden: User "stranger" cannot post path "/x"'
    async with plane.client("podworker") as node:
        assert (await ask(node, "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1"))[0] == 200
        assert (await ask(node, "GET", "/api/v1/pods"))[0] == 403
        running = {"status": {"phase": "Running"}}
        own = ("PATCH", f"{PODS}/mine/status", running)
        await until_async("its pod", lambda: ask(node, *own, headers=MERGE), good=lambda answer: answer[0] == 200)
        assert (await ask(node, "PATCH", f"{PODS}/theirs/status", running, headers=MERGE))[0] == 403
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n1"}, "spec": {}}
        assert (await ask(node, "POST", LEASES, lease))[0] == 201
        assert (await ask(node, "POST", LEASES, {**lease, "metadata": {"name": "n2"}}))[0] == 403
        itself = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
        assert (await ask(node, "POST", "/api/v1/nodes", itself))[0] == 201
        assert (await ask(node, "POST", "/api/v1/nodes", {**itself, "metadata": {"name": "n2"}}))[0] == 403
    async with plane.client("scheduler") as scheduler:
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "mine"}, "target": {"name": "n1"}}
        assert (await ask(scheduler, "POST", f"{PODS}/mine/binding", binding))[0] == 409
        assert (await ask(scheduler, "GET", "/api/v1/namespaces/default/secrets"))[0] == 403


async def test_tables_and_discovery(plane: Plane) -> None:
    async with plane.client() as session:
        _, table = await ask(session, "GET", "/api/v1/namespaces", headers={"Accept": TABLE})
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Status", "Age"]
        assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
        aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
        for path in ("/api", "/apis"):
            async with session.get(path, headers={"Accept": aggregated}) as answer:
                assert "as=APIGroupDiscoveryList" in answer.headers["Content-Type"]
        _, index = await ask(session, "GET", "/openapi/v3")
        _, document = await ask(session, "GET", index["paths"]["api/v1"]["serverRelativeURL"])
        assert document["openapi"] == "3.0.0"
        lasting, base = index["paths"]["api/v1"]["serverRelativeURL"], "/openapi/v3/api/v1"
        for path, code, lasts in ((lasting, 200, True), (base, 200, False), (f"{base}?hash=OLD", 301, False)):
            async with session.get(path, allow_redirects=False) as answer:
                assert (answer.status, "immutable" in answer.headers.get("Cache-Control", "")) == (code, lasts)
                assert code == 200 or answer.headers["Location"] == lasting
        async with session.get("/readyz?verbose") as answer:
            assert "[+]etcd ok" in await answer.text()


def test_a_port_in_use_is_a_one_line_error(plane: Plane) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        other = plane.root / "run" / "other.json"
        save_settings(other, msgspec.structs.replace(plane.settings, port=holder.getsockname()[1]))
        command = [
            sys.executable,
            "-m",
            "actors.apiserver.actor",
            "--settings",
            str(other),
            "--instance",
            "apiserver-9",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 1
    assert "cannot listen on 127.0.0.1" in lines[0]


def test_garbage_on_the_port_disturbs_nobody(plane: Plane) -> None:
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01" + bytes(200), b"\xff" * 5000):
        with socket.create_connection(("127.0.0.1", plane.port), timeout=30) as raw:
            raw.sendall(garbage)
            with contextlib.suppress(ConnectionError):
                raw.recv(100)
    raw = socket.create_connection(("127.0.0.1", plane.port), timeout=30)
    with plane.tls().wrap_socket(raw, server_hostname="127.0.0.1") as tls:
        tls.sendall(b"NONSENSE\r\nA: b\r\n\r\n")
        assert tls.recv(1000).startswith(b"HTTP/1.0 400")
    assert plane.get_text("/readyz") == (200, "ok")

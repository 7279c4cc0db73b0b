"""Values in the store that are no objects: each is named and can be deleted, and neither neighbours nor processes
notice."""

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from protocols.etcd.client import EtcdClient
from protocols.etcd.options import EtcdOptions
from tests.support.api_judge import Answer, Client
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.plane import Plane as WholePlane
from tests.support.waiting import until

MAPS = "/api/v1/namespaces/default/configmaps"
KEYS = "/registry/configmaps/default/"
JSON = {"Content-Type": "application/json"}
IGNORE = "ignoreStoreReadErrorWithClusterBreakingPotential"
HEAD = b'{"kind":"ConfigMap","apiVersion":"v1","metadata":'
BAD = {
    "no-json": b"\xff\xfe no JSON",
    "empty": b"",
    "null": b"null",
    "list": b"[1]",
    "number-metadata": HEAD + b"7}",
    "list-labels": HEAD + b'{"name":"list-labels","labels":["a"]}}',
    "no-kind": b'{"metadata":{"name":"no-kind"}}',
    "protobuf": b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap",
    "deep": b"[" * 100_000,
    "no-text": HEAD + b'{"name":"no-text"},"data":{"a":"\xff"}}',
    "digits": HEAD + b'{"name":"digits"},"x":' + b"9" * 5000 + b"}",
}


def put(target: str, values: dict[str, bytes]) -> None:
    async def story() -> None:
        client = EtcdClient(EtcdOptions(endpoints=(target,), timeout=30.0))
        await client.start()
        for key, value in values.items():
            await client.put(key.encode(errors="surrogateescape"), value)
        await client.close()

    asyncio.run(story())


class Scene:
    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.client = Client(plane.port, plane.tls())

    def put(self, values: dict[str, bytes]) -> None:
        put(self.plane.settings.store_endpoints[0], values)

    def make(self, name: str) -> None:
        made = self.client.ask("POST", MAPS, json.dumps({"metadata": {"name": name}}).encode(), JSON)
        assert made.status == 201, made.body

    def delete(self, path: str, **options: Any) -> Answer:
        return self.client.ask("DELETE", path, json.dumps(options).encode(), JSON)

    def names(self, query: str = "") -> list[str]:
        return [item["metadata"]["name"] for item in self.client.ask("GET", MAPS + query).json["items"]]

    def events(self, version: str) -> list[tuple[str, str]]:
        """What a watch from there is told within a second."""
        url = f"{self.plane.url}{MAPS}?watch=true&resourceVersion={version}&timeoutSeconds=1"
        with urllib.request.urlopen(url, timeout=30, context=self.plane.tls()) as answer:
            told = [json.loads(line) for line in answer.read().splitlines()]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in told]


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """An API server whose store holds unreadable values."""
    with running_plane() as plane:
        made = Scene(plane)
        made.make("before")
        made.put({f"{KEYS}{name}": value for name, value in BAD.items()})
        made.make("then")
        yield made
        made.client.close()
        assert not plane.tracebacks()


def message(key: str) -> str:
    return f"Internal error occurred: StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, "


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("query", ["", "?resourceVersion=0"])
def test_what_is_no_object_is_named_to_who_reads_it(scene: Scene, name: str, query: str) -> None:
    answer = scene.client.ask("GET", f"{MAPS}/{name}{query}")
    assert (answer.status, answer.json["reason"]) == (500, "InternalError")
    assert answer.json["message"].startswith(message(KEYS + name))


@pytest.mark.parametrize("query", ["?", "?limit=3&", "?resourceVersion=0&"])
@pytest.mark.parametrize("form", ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"])
def test_list_shows_the_neighbours_and_names_the_rest(scene: Scene, query: str, form: str) -> None:
    names, told, resume = [], "", ""
    for _ in range(20):
        url = f"{scene.plane.url}{MAPS}{query}continue={resume}"
        request = urllib.request.Request(url, headers={"Accept": form})
        with urllib.request.urlopen(request, timeout=30, context=scene.plane.tls()) as answer:
            told += "\n".join(answer.headers.get_all("Warning") or ())
            page = json.loads(answer.read())
        names += [row.get("object", row)["metadata"]["name"] for row in page.get("items", page.get("rows"))]
        if not (resume := page["metadata"].get("continue", "")):
            break
    assert names == ["before", "then"]
    assert [name for name in BAD if f"{KEYS}{name}" not in told] == []


def test_a_watch_sees_the_object_go_and_come_back(scene: Scene) -> None:
    scene.make("victim")
    version = scene.client.ask("GET", MAPS).json["metadata"]["resourceVersion"]
    scene.put({KEYS + "victim": b"not an object"})
    scene.make("neighbour")
    scene.put({KEYS + "victim": HEAD + b'{"name":"victim","namespace":"default"}}'})
    told = scene.events(version)
    assert told == [("DELETED", "victim"), ("ADDED", "neighbour"), ("ADDED", "victim")]
    assert [scene.delete(f"{MAPS}/{name}").status for name in ("victim", "neighbour")] == [200, 200]


def test_writes_to_what_is_no_object_change_nothing(scene: Scene) -> None:
    scene.put({KEYS + "stays": b"7"})
    body = json.dumps({"metadata": {"name": "stays"}}).encode()
    assert scene.client.ask("POST", MAPS, body, JSON).status == 409
    merge = {"Content-Type": "application/merge-patch+json"}
    for answer in (
        scene.client.ask("PUT", f"{MAPS}/stays", body, JSON),
        scene.client.ask("PATCH", f"{MAPS}/stays", b'{"data":{"a":"b"}}', merge),
        scene.delete(f"{MAPS}/stays"),
    ):
        assert (answer.status, answer.json["message"].startswith(message(KEYS + "stays"))) == (500, True)


def test_what_is_no_object_is_deleted_by_who_says_so(scene: Scene) -> None:
    scene.put({KEYS + "goes": b"7"})
    refused = scene.delete(f"{MAPS}/goes", **{IGNORE: True, "gracePeriodSeconds": 1})
    assert (refused.status, "cannot be set together with .gracePeriodSeconds" in refused.json["message"]) == (422, True)
    refused = scene.delete(f"{MAPS}/before", **{IGNORE: True})
    assert "is exclusively used to delete corrupt object(s)" in refused.json["message"]
    refused = scene.delete(f"{MAPS}", **{IGNORE: True})
    assert "is not allowed with DELETECOLLECTION" in refused.json["message"]
    assert scene.delete(f"{MAPS}/goes", **{IGNORE: True}).status == 200
    assert scene.client.ask("GET", f"{MAPS}/goes").status == 404
    assert scene.delete(f"{MAPS}/goes", **{IGNORE: True}).status == 404


def test_deleting_it_takes_a_right_of_its_own(scene: Scene) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete", "get"]}
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "deletes"}
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "stranger"}
    for path, body in (
        ("clusterroles", {"metadata": {"name": "deletes"}, "rules": [rule]}),
        ("clusterrolebindings", {"metadata": {"name": "d"}, "roleRef": reference, "subjects": [subject]}),
    ):
        assert scene.client.ask("POST", f"{rbac}/{path}", json.dumps(body).encode(), JSON).status == 201
    stranger = Client(scene.plane.port, scene.plane.tls("stranger"))
    until("the role holds", lambda: stranger.ask("GET", f"{MAPS}/before"), good=lambda answer: answer.status == 200)
    refused = stranger.ask("DELETE", f"{MAPS}/no-json", json.dumps({IGNORE: True}).encode(), JSON)
    assert refused.status == 403
    assert 'not permitted to do "unsafe-delete-ignore-read-errors"' in refused.json["message"]
    stranger.close()


def test_collection_is_deleted_but_for_what_cannot_be_read(scene: Scene) -> None:
    """So that a namespace does not end while something is left in it."""
    answer = scene.delete(MAPS)
    assert (answer.status, answer.json["reason"]) == (500, "StorageReadError")
    assert f"{KEYS}deep" in answer.json["message"]
    assert scene.names() == []


KINDS = {
    "pods/default/": ("v1", "Pod"),
    "minions/": ("v1", "Node"),
    "namespaces/": ("v1", "Namespace"),
    "serviceaccounts/default/": ("v1", "ServiceAccount"),
    "secrets/default/": ("v1", "Secret"),
    "events/default/": ("v1", "Event"),
    "leases/default/": ("coordination.k8s.io/v1", "Lease"),
    "resourceslices/": ("resource.k8s.io/v1", "ResourceSlice"),
    "resourceclaims/default/": ("resource.k8s.io/v1", "ResourceClaim"),
    "deviceclasses/": ("resource.k8s.io/v1", "DeviceClass"),
    "clusterroles/": ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    "clusterrolebindings/": ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    "apiextensions.k8s.io/customresourcedefinitions/": ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
}


DEEP = {
    "spec": dict.fromkeys(("containers", "devices", "names", "versions", "taints", "nodeName", "volumes", "pool"), 7),
    "status": dict.fromkeys(("conditions", "allocation", "addresses", "containerStatuses", "allocatable"), 7),
}


def strange(version: str, kind: str, name: str) -> bytes:
    """An object whose metadata can be read, and nothing else."""
    parts = {**dict.fromkeys(("rules", "subjects", "roleRef", "data", "involvedObject"), 7), **DEEP}
    return json.dumps({"kind": kind, "apiVersion": version, "metadata": {"name": name}, **parts}).encode()


def test_no_process_of_a_plane_ends_by_it() -> None:
    values = {f"/registry/{place}{name}": value for place in KINDS for name, value in BAD.items()}
    for place, (version, kind) in KINDS.items():
        values[f"/registry/{place}strange"] = strange(version, kind, "strange")
        values[f"/registry/{place}flat"] = strange(version, kind, "flat").replace(b'"spec": {', b'"spec": 7, "x": {')
    values["/registry/minions/@floor"] = values["/registry/configmaps/default/\udcff"] = b"7"
    with WholePlane() as plane:
        before = {name: actor["pid"] for name, actor in plane.status().items()}
        put(plane.store, values)
        plane.kubectl("create", "configmap", "neighbour")
        plane.apply(pod("beside"))
        plane.pod_ready("beside")
        assert {name: actor["pid"] for name, actor in plane.status().items()} == before
        victims = ("watchcache", "apiserver-0", "scheduler", "controllers", "podworker", "health")
        for victim in victims:
            plane.kill(victim)
        plane.served()
        plane.apply(pod("later"))
        plane.pod_ready("later")
        assert "neighbour" in plane.kubectl("get", "configmaps")
        assert {plane.get("pod", name)["status"]["phase"] for name in ("beside", "later")} == {"Running"}
        after = {name: (actor["pid"], actor["state"]) for name, actor in plane.status().items()}
        assert {after[name][0] for name in before if name not in victims} == set(before.values()) - {
            before[name] for name in victims
        }
        for kind in ("pods", "nodes", "secrets", "events", "clusterroles", "resourceclaims", "crds"):
            plane.kubectl("get", kind)
        logs = "".join(log.read_text(errors="replace") for log in (plane.root / "logs").glob("*.log"))
        assert "Traceback" not in logs


def pod(name: str) -> Any:
    container = {"name": "c", "image": "none", "command": ["sleep", "60"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}

"""Custom resources with an unmodified kubectl and plain HTTP, on real processes, any of which may be killed."""

import asyncio
import copy
import json
import random
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import psutil
import pytest

from protocols.bus import BusError
from tests.support.api_judge import Client
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.engine import OURS, engines
from tests.support.waiting import until_async

TEXT = {"type": "string"}
SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["schedule"],
    "properties": {
        "schedule": {"type": "string", "pattern": "^[*0-9 ]+$", "description": "When it runs."},
        "image": TEXT,
        "replicas": {"type": "integer", "minimum": 1, "maximum": 10, "default": 1},
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
    },
}
STATUS = {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": TEXT}}
VERSION: dict[str, Any] = {
    "name": "v1",
    "served": True,
    "storage": True,
    "subresources": {
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    },
    "selectableFields": [{"jsonPath": ".spec.image"}],
    "additionalPrinterColumns": [
        {"name": "Schedule", "type": "string", "jsonPath": ".spec.schedule"},
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
    ],
    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}},
}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = {"Content-Type": "application/merge-patch+json"}


def definition(plural: str = "crontabs", kind: str = "CronTab", *versions: dict[str, Any]) -> dict[str, Any]:
    names = {
        "plural": plural,
        "kind": kind,
        "shortNames": ["crx" if plural == "crontabs" else f"x{plural}"],
        "categories": ["all"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions or [VERSION]},
    }


def tab(name: str, **spec: Any) -> dict[str, Any]:
    spec = {"schedule": "* *", **spec}
    return {"apiVersion": "example.com/v1", "kind": "CronTab", "metadata": {"name": name}, "spec": spec}


def url(plural: str = "crontabs", version: str = "v1") -> str:
    return f"/apis/example.com/{version}/namespaces/default/{plural}"


@pytest.fixture(scope="module", params=engines())
def plane(request: pytest.FixtureRequest) -> Iterator[Plane]:
    """An API server on each store with CronTabs defined."""
    with running_plane(store=request.param) as started:
        define_crontabs(started)
        yield started


one_store = pytest.mark.parametrize("plane", [OURS], indirect=True)
"""For what the store has no part in."""


def define_crontabs(plane: Plane) -> None:
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(definition()))
    plane.kubectl("wait", "--for=condition=Established", "crd/crontabs.example.com", "--timeout=60s")


@one_store
def test_kubectl_uses_it_like_a_built_in_resource(plane: Plane) -> None:
    assert "created" in plane.kubectl("apply", "-f", "-", stdin=json.dumps(tab("a", image="x", extra={"any": [1]})))
    assert "unchanged" in plane.kubectl("apply", "-f", "-", stdin=json.dumps(tab("a", image="x", extra={"any": [1]})))
    assert "configured" in plane.kubectl("apply", "-f", "-", stdin=json.dumps(tab("a", image="y")))
    table = plane.kubectl("get", "crx").splitlines()
    assert [line.split() for line in table] == [["NAME", "SCHEDULE", "REPLICAS"], ["a", "*", "*", "1"]]
    assert "crontab.example.com/a" in plane.kubectl("get", "all", "-o", "name")
    assert plane.kubectl("get", "crx", "--field-selector", "spec.image=y", "-o", "name") == "crontab.example.com/a\n"
    assert "When it runs." in plane.kubectl("explain", "crontabs.spec")
    plane.kubectl("scale", "--replicas=3", "crx/a")
    assert plane.kubectl("get", "crx", "a", "-o", "jsonpath={.spec.replicas} {.metadata.generation}") == "3 3"
    patch = '{"status":{"replicas":3},"spec":{"image":"z"},"metadata":{"labels":{"l":"m"}}}'
    plane.kubectl("patch", "crx", "a", "--subresource=status", "--type=merge", "-p", patch)
    shown = plane.kubectl("get", "crx", "a", "-o", "jsonpath={.status.replicas}{.spec.image}{.metadata.generation}")
    assert shown == "3y3"
    assert "deleted" in plane.kubectl("delete", "crx", "a")


@one_store
def test_unknown_fields_and_wrong_values_are_reported(plane: Plane) -> None:
    bad = tab("bad", replicas=11, tags=["a", "a"], schedule=5)
    told = plane.kubectl("create", "-f", "-", stdin=json.dumps(bad), check=False)
    assert '* spec.schedule: Invalid value: "integer": spec.schedule in body must be of type string: "integer"' in told
    assert "* spec.replicas: Invalid value: 11: spec.replicas in body should be less than or equal to 10" in told
    assert '* spec.tags[1]: Duplicate value: "a"' in told
    worse = json.dumps(tab("bad", replicas=11, strange=1))
    told = plane.kubectl("create", "--validate=warn", "-f", "-", stdin=worse, check=False)
    assert 'Warning: unknown field "spec.strange"' in told
    assert "spec.replicas: Invalid value: 11" in told
    odd = json.dumps(tab("odd", strange=1, tags=None))
    assert 'strict decoding error: unknown field "spec.strange"' in plane.kubectl(
        "create", "-f", "-", stdin=odd, check=False
    )
    assert 'unknown field "spec.strange"' in plane.kubectl(
        "create", "--validate=warn", "-f", "-", stdin=odd, check=False
    )
    assert plane.kubectl("get", "crx", "odd", "-o", "jsonpath={.spec}") == '{"replicas":1,"schedule":"* *"}'
    strategic = plane.kubectl("patch", "crx", "odd", "--type=strategic", "-p", "{}", check=False)
    assert "strategic" in strategic
    plane.kubectl("delete", "crx", "odd")


@one_store
def test_scale_of_an_object_without_replicas_is_an_error(plane: Plane) -> None:
    spec = {"type": "object", "properties": {"size": {"type": "integer"}}}
    scale = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"scale": scale}}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(definition("sizes", "Size", version)))
    plane.kubectl("wait", "--for=condition=Established", "crd/sizes.example.com", "--timeout=60s")
    made = {"apiVersion": "example.com/v1", "kind": "Size", "metadata": {"name": "s"}, "spec": {}}
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(made))
    missing = plane.kubectl("get", "--raw", f"{url('sizes')}/s/scale", check=False)
    assert 'Internal error occurred: the spec replicas field ".spec.size" does not exist' in missing
    client = Client(plane.port, plane.tls())
    same = client.ask("PATCH", f"{url('sizes')}/s/scale", b"{}", MERGE)
    assert (same.status, same.json["message"]) == (400, 'the spec replicas field ".spec.size" cannot be empty')
    scaled = client.ask("PATCH", f"{url('sizes')}/s/scale", b'{"spec":{"replicas":2}}', MERGE)
    assert (scaled.status, scaled.json["spec"]) == (200, {"replicas": 2})
    client.close()


@one_store
def test_rules_in_cel_are_checked_and_kept(plane: Plane) -> None:
    zone = {**TEXT, "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "stays"}]}
    rule = {"rule": "self.least <= self.most", "messageExpression": "'least is above %d'.format([self.most])"}
    properties = {"least": {"type": "integer"}, "most": {"type": "integer"}, "zone": zone}
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": [rule]}
    version = {**VERSION, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}
    version = {key: version[key] for key in ("name", "served", "storage", "schema")}
    wrong = copy.deepcopy(version)
    wrong["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"][0]["rule"] = "self.les"
    told = plane.kubectl("apply", "-f", "-", stdin=json.dumps(definition("scales", "Scale2", wrong)), check=False)
    where = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    assert f"{where}: Invalid value" in told
    assert "undefined field 'les'" in told
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(definition("scales", "Scale2", version)))
    plane.kubectl("wait", "--for=condition=Established", "crd/scales.example.com", "--timeout=60s")

    def scale(**spec: Any) -> str:
        made = {"apiVersion": "example.com/v1", "kind": "Scale2", "metadata": {"name": "s"}, "spec": spec}
        return plane.kubectl("apply", "-f", "-", stdin=json.dumps(made), check=False)

    assert "is invalid: spec: Invalid value: least is above 2" in scale(least=3, most=2)
    assert "created" in scale(least=1, most=2, zone="a")
    assert 'is invalid: spec.zone: Invalid value: "b": stays' in scale(least=1, most=2, zone="b")
    assert "configured" in scale(least=2, most=2, zone="a")
    assert "FIELD: least <integer>" in plane.kubectl("explain", "scales.spec.least")


@one_store
def test_server_side_apply_owns_sets_member_by_member(plane: Plane) -> None:
    for manager, tags in (("one", ["a"]), ("two", ["b"]), ("one", [])):
        body = json.dumps(tab("set", tags=tags))
        plane.kubectl("apply", "--server-side", f"--field-manager={manager}", "-f", "-", stdin=body)
    assert plane.kubectl("get", "crx", "set", "-o", "jsonpath={.spec.tags}") == '["b"]'
    clash = json.dumps(tab("set", schedule="1"))
    told = plane.kubectl("apply", "--server-side", "--field-manager=one", "-f", "-", stdin=clash, check=False)
    assert 'conflict with "two": .spec.schedule' in told
    plane.kubectl("delete", "crx", "set")


async def _nothing() -> AsyncIterator[bytes]:
    """Not ready yet: asked again."""
    await asyncio.sleep(0.1)
    for line in list[bytes]():
        yield line


async def established(session: Any, name: str) -> None:
    async def conditions() -> dict[str, str]:
        async with session.get(f"{CRDS}/{name}") as answer:
            return {c["type"]: c["status"] for c in (await answer.json()).get("status", {}).get("conditions", [])}

    await until_async(f"{name} established", conditions, good=lambda found: found.get("Established") == "True")


async def gone(session: Any, path: str) -> None:
    async def status() -> int:
        async with session.get(path) as answer:
            return int(answer.status)

    await until_async(f"{path} gone", status, every=0.05, good=lambda found: found == 404)


async def test_two_versions_show_the_same_objects(plane: Plane) -> None:
    sized = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 7}}}},
    }
    plain = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    old = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": plain}, "deprecated": True}
    new = {"name": "v2", "served": True, "storage": False, "schema": {"openAPIV3Schema": sized}}

    async with plane.client() as session:
        assert (await session.post(CRDS, json=definition("pairs", "Pair", old, new))).status == 201
        await established(session, "pairs.example.com")
        body = {"apiVersion": "example.com/v1", "kind": "Pair", "metadata": {"name": "p"}, "spec": {"size": 1}}
        async with session.post(url("pairs"), json=body) as made:
            assert (made.status, made.headers["Warning"]) == (
                201,
                '299 - "example.com/v1 Pair is deprecated; use example.com/v2 Pair"',
            )
        async with session.get(f"{url('pairs')}/none") as missing:
            assert (missing.status, missing.headers["Warning"]) == (404, made.headers["Warning"])
        for query in ("watch=true", "watch=true&resourceVersion=x"):
            async with session.get(f"{url('pairs')}?{query}") as watch:
                assert watch.headers["Warning"] == made.headers["Warning"]
        async with session.get(f"{url('pairs', 'v2')}/p") as shown:
            found = await shown.json()
        assert (found["apiVersion"], found["spec"]) == ("example.com/v2", {"size": 1})
        async with session.post(url("pairs"), json={**body, "metadata": {"name": "q"}, "spec": {}}) as made:
            assert made.status == 201
        async with session.get(f"{url('pairs', 'v2')}/q") as shown:
            assert (await shown.json())["spec"] == {}, "the defaults are those of the stored version"
        # v2 becomes what is stored: a write that changes nothing moves the object
        versions = [{**old, "storage": False}, {**new, "storage": True}]
        patch = json.dumps({"spec": {"versions": versions}})
        async with session.patch(f"{CRDS}/pairs.example.com", data=patch, headers=MERGE) as patched:
            assert (await patched.json())["status"]["storedVersions"] == ["v1", "v2"]
        before = found["metadata"]["resourceVersion"]

        async def written() -> str:
            async with session.put(f"{url('pairs', 'v2')}/p", json=found) as answer:
                return str((await answer.json())["metadata"]["resourceVersion"])

        moved = await until_async("the definition's change", written, good=lambda version: version != before)
        found["metadata"]["resourceVersion"] = moved
        assert await written() == moved


async def test_deleting_a_definition_deletes_its_objects_first(plane: Plane) -> None:
    async with plane.client() as session:
        await session.post(CRDS, json=definition("leaving", "Leaving"))
        await established(session, "leaving.example.com")
        for name, finalizers in (("held", ["example.com/wait"]), ("free", [])):
            body = {**tab(name), "kind": "Leaving"}
            body["metadata"]["finalizers"] = finalizers
            assert (await session.post(url("leaving"), json=body)).status == 201
        await session.delete(f"{CRDS}/leaving.example.com")
        await gone(session, f"{url('leaving')}/free")
        late = await session.post(url("leaving"), json={**tab("late"), "kind": "Leaving"})
        assert (late.status, (await late.json())["message"]) == (
            403,
            'leaving.example.com "late" is forbidden: '
            "create not allowed while custom resource definition is terminating",
        )
        async with session.get(f"{CRDS}/leaving.example.com") as still:
            assert (await still.json())["status"]["conditions"][-1]["type"] == "Terminating"
        await session.patch(f"{url('leaving')}/held", data='{"metadata":{"finalizers":null}}', headers=MERGE)
        await gone(session, f"{CRDS}/leaving.example.com")
        await gone(session, url("leaving"))  # once this process has seen it go


async def test_watch_of_a_deleted_definition_shows_every_object_go(plane: Plane) -> None:
    async with plane.client() as session:
        assert (await session.post(CRDS, json=definition("leaves", "Leaf"))).status == 201
        await established(session, "leaves.example.com")
        for name in ("a", "b", "c"):
            assert (await session.post(url("leaves"), json={**tab(name), "kind": "Leaf"})).status == 201
        async with session.get(f"{url('leaves')}?watch=true&timeoutSeconds=60") as watch:
            assert (await session.delete(f"{CRDS}/leaves.example.com")).status == 200
            seen = [json.loads(line) async for line in watch.content]
        events = [(event["type"], event["object"]["metadata"].get("name")) for event in seen]
        assert [event for event in events if event[0] == "DELETED"] == [("DELETED", name) for name in ("a", "b", "c")]


async def test_a_watch_resumes_whatever_is_killed(plane: Plane) -> None:
    """Two processes serve; store, watch cache and the process that has the watch are killed one after the other."""
    plane.spawn("apiserver-1")
    seen: list[str] = []

    async def follow(session: Any, version: str, until: str) -> str:
        deadline = time.monotonic() + 60
        while until not in seen:
            assert time.monotonic() < deadline, seen
            query = f"?watch=true&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds=2"
            try:
                async with session.get(url() + query) as stream:
                    assert stream.status in (200, 429, 503), await stream.text()
                    async for line in stream.content if stream.status == 200 else _nothing():
                        event = json.loads(line)
                        assert event["type"] != "ERROR", event
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] != "BOOKMARK":
                            seen.append(event["object"]["metadata"]["name"])
                        if until in seen:
                            break
            except (OSError, aiohttp.ClientError):
                await asyncio.sleep(0.05)
        return version

    async def write(session: Any, name: str) -> None:
        async def status() -> int:
            async with session.post(url(), json=tab(name)) as made:
                return int(made.status)

        away = (aiohttp.ClientError,)
        await until_async(f"{name} written", status, every=0.05, good=lambda code: code in (201, 409), errors=away)

    async with plane.client() as session:
        async with session.get(url()) as listed:
            version = (await listed.json())["metadata"]["resourceVersion"]
        for number, victim in enumerate(("watchcache", "store", "apiserver-0", "apiserver-1")):
            await write(session, f"before-{number}")
            plane.kill(victim)
            plane.spawn(victim)
            await write(session, f"after-{number}")
            version = await follow(session, version, f"after-{number}")
        assert seen == [f"{when}-{number}" for number in range(4) for when in ("before", "after")]
    plane.wait_ready()


async def filled(plane: Plane, instance: str) -> None:
    """It has all there is, as its metrics tell."""

    async def positions() -> list[str]:
        lines = (await plane.metrics(instance)).splitlines()
        return [line for line in lines if line.startswith("nodeplane_replica_revision{")]

    def has_all(found: list[str]) -> bool:
        return bool(found) and not any(line.endswith(" 0") for line in found)

    await until_async(f"{instance} filled", positions, every=0.05, good=has_all, errors=(BusError,))


@one_store
async def test_a_hundred_definitions_cost_little(plane: Plane) -> None:
    """Memory of the processes that follow each of them, and of the idle plane's time."""

    for instance in (name for name in plane.processes if name.startswith("apiserver")):
        await filled(plane, instance)  # one that still starts grows by itself
    before = {name: psutil.Process(p.pid).memory_info().rss for name, p in plane.processes.items()}
    async with plane.client() as session:
        for number in range(100):
            made = await session.post(CRDS, json=definition(f"many{number}s", f"Many{number}"))
            assert made.status == 201, await made.text()
        await established(session, "many99s.example.com")
        async with session.get(url("many99s")) as listed:
            assert (await listed.json())["items"] == []
        # whichever process a connection leads to knows what another has said is established
        await session.post(CRDS, json=definition("lasts", "Last"))
        await established(session, "lasts.example.com")
    for _ in range(8):
        async with plane.client() as session:
            async with session.get("/apis/example.com/v1") as told:
                assert "lasts" in [resource["name"] for resource in (await told.json())["resources"]]
            assert (await session.get(url("lasts"))).status == 200
    grown = {name: psutil.Process(p.pid).memory_info().rss - before[name] for name, p in plane.processes.items()}
    assert all(size < 40 * 2**20 for size in grown.values()), grown


JUNK: list[Any] = [None, True, -1, 1.5, "", "a.b", [], [None], [{}], {}, {"a": None}, {"type": "object"}, 2**70]
WORDS = (
    "additionalProperties",
    "items",
    "properties",
    "default",
    "enum",
    "not",
    "pattern",
    "spec",
    "status",
    "metadata",
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, part in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield from places(part, (*path, key))


def spoilt(obj: dict[str, Any], dice: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = copy.deepcopy(obj)
    for _ in range(dice.randint(1, 3)):
        *above, last = dice.choice([place for place in places(made) if place])
        at = made
        for step in above:
            at = at[step]
        key = dice.choice(WORDS) if isinstance(at, dict) and dice.random() < 0.2 else last
        at[key] = copy.deepcopy(dice.choice(JUNK))
    return made


@one_store
async def test_garbage_is_refused_and_harms_nobody(plane: Plane) -> None:
    """The same garbage each time: definitions, and objects by every way in."""
    dice = random.Random(7)
    patches = {"application/merge-patch+json": "", "application/apply-patch+yaml": "?fieldManager=m&force=true"}

    async with plane.client() as session:
        codes = set()
        for _ in range(150):
            made = await session.post(f"{CRDS}?dryRun=All", json=spoilt(definition("junk", "Junk"), dice))
            codes.add(made.status)
        await session.post(url(), json=tab("garbage", tags=["a"], extra={"a": 1}))
        for number in range(200):
            body = spoilt(tab("garbage", tags=["a"], extra={"a": 1}), dice)
            media, query = dice.choice(list(patches.items()))
            where = f"{url()}/garbage{('', '', '/status', '/scale')[number % 4]}"
            if number % 2:
                made = await session.patch(where + query, data=json.dumps(body), headers={"Content-Type": media})
            else:
                made = await session.put(where, json=body)
            codes.add(made.status)
        assert codes <= {200, 201, 400, 404, 409, 415, 422}, codes

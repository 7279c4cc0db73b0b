"""API operations that upstream's conformance specs ask for, kind by kind, and what they ask of the server as a whole.

docs/reference/conformance-specs.md names the specs.
"""

import copy
import json
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.api_operations import (
    CONTAINER,
    JSON,
    KINDS,
    NAMES,
    SEEN_CONDITION,
    SELECTED,
    STATUS,
    ask,
    events,
    tried,
    until,
    watching,
)
from tests.support.apiserver_plane import Plane

MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
TABLE = {**JSON, "Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
AT_ONCE = {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}
SEEN = {"labels": {"seen": "yes"}}


@pytest.mark.parametrize("name", KINDS)
async def test_api_operations_of_a_kind(plane: Plane, name: str) -> None:
    version, namespaced, body = KINDS[name]
    plural = "events" if name.startswith("events") else name.split()[0]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    path = f"{root}/{'namespaces/default/' if namespaced else ''}{plural}"
    async with plane.client() as session:
        kind = await discovered(session, version, root, plural)
        mark = name.replace(" ", "-")
        one, two = NAMES.get(name, ("one", "two"))
        body = {"apiVersion": version, "kind": kind, **body}

        def made(name: str) -> dict[str, Any]:
            return {**copy.deepcopy(body), "metadata": {"name": name, "labels": {"mark": mark}}}

        mine = f"?labelSelector=mark%3D{mark}"
        start = (await ask(session, "GET", path))["metadata"]["resourceVersion"]
        uid = (await ask(session, "POST", path, made(one)))["metadata"]["uid"]
        assert (await ask(session, "GET", f"{path}/{one}"))["metadata"]["uid"] == uid
        await ask(session, "PATCH", f"{path}/{one}", {"metadata": SEEN}, **MERGE)
        held = await ask(session, "GET", f"{path}/{one}")
        assert held["metadata"]["labels"]["seen"] == "yes"
        held["metadata"]["annotations"] = {"changed": "yes"}
        assert (await ask(session, "PUT", f"{path}/{one}", held))["metadata"]["annotations"]["changed"] == "yes"
        await change_status(session, f"{path}/{one}", STATUS.get(plural, {}))
        await ask(session, "POST", path, made(two))
        for where in {path, f"{root}/{plural}"}:
            listed = await ask(session, "GET", f"{where}{mine}")
            assert [item["metadata"]["name"] for item in listed["items"]] == [one, two]
        await ask(session, "DELETE", f"{path}/{two}", AT_ONCE)
        assert (await tried(session, "GET", f"{path}/{two}"))[0] == 404
        await ask(session, "DELETE", f"{path}{mine}", AT_ONCE)
        assert (await ask(session, "GET", f"{path}{mine}"))["items"] == []
        async with watching(session, f"{path}{mine}", start) as stream:
            seen = [(each, obj["metadata"]["name"]) for each, obj in await events(stream, 5 + (plural in STATUS) * 2)]
        changes = [("MODIFIED", one)] * (2 + (plural in STATUS) * 2)
        assert seen == [("ADDED", one), *changes, ("ADDED", two), ("DELETED", two)][: len(seen)]


async def discovered(session: aiohttp.ClientSession, version: str, root: str, plural: str) -> str:
    """Return the kind of a resource that every discovery document names."""
    group, slash, _ = version.rpartition("/")
    if slash:
        assert group in [each["name"] for each in (await ask(session, "GET", "/apis"))["groups"]]
        found = await ask(session, "GET", f"/apis/{group}")
        assert version in [each["groupVersion"] for each in found["versions"]]
        assert found["preferredVersion"]["groupVersion"].startswith(f"{group}/v1")
    resources = {resource["name"]: resource for resource in (await ask(session, "GET", root))["resources"]}
    verbs = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    assert verbs <= set(resources[plural]["verbs"])
    assert (f"{plural}/status" in resources) >= (plural in STATUS)
    return str(resources[plural]["kind"])


async def change_status(session: aiohttp.ClientSession, path: str, change: dict[str, Any]) -> None:
    """Patch, read and replace a status; the rest of the object stays."""
    if not change:
        return
    patched = await ask(
        session, "PATCH", f"{path}/status", {"metadata": {"labels": {"s": "1"}}, "status": change}, **MERGE
    )
    shown = await ask(session, "GET", f"{path}/status")
    assert shown["status"] == patched["status"]
    shown["metadata"].setdefault("annotations", {})["status"] = "replaced"
    if "attached" in change:  # the status of a VolumeAttachment is written without metadata
        shown["status"]["attached"] = not change["attached"]
    replaced = await ask(session, "PUT", f"{path}/status", shown)
    assert replaced.get("spec") == patched.get("spec")
    assert (await ask(session, "GET", path))["status"] == replaced["status"]


TEXT = {"type": "string"}
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
STRICT = {"type": "object", "properties": {"a": TEXT, "template": EMBEDDED}}


def definition(plural: str, spec: dict[str, Any]) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": plural, "kind": plural.title()}
    spec = {"group": "operations.example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    meta = {"name": f"{plural}.operations.example.com", "labels": {"mark": "definitions"}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": meta, "spec": spec}


def things(plural: str, query: str = "") -> str:
    return f"/apis/operations.example.com/v1/namespaces/default/{plural}{query}"


def thing(plural: str, name: str, **parts: Any) -> dict[str, Any]:
    kind = {"apiVersion": "operations.example.com/v1", "kind": plural.title(), "metadata": {"name": name}}
    return {**kind, **parts}


async def served(session: aiohttp.ClientSession, plural: str) -> None:
    async def answers() -> bool:
        return (await tried(session, "GET", things(plural)))[0] == 200

    await until(answers)


async def test_field_validation_of_custom_objects_follows_their_schema(plane: Plane) -> None:
    async with plane.client() as session:
        for plural, spec in (("frees", FREE), ("stricts", STRICT)):
            await ask(session, "POST", CRDS, definition(plural, spec))
            await served(session, plural)
        strict = "?fieldValidation=Strict"
        await ask(session, "POST", things("frees", strict), thing("frees", "any", spec={"colour": {"deep": 1}}))
        applied = thing("stricts", "good", spec={"a": "1"})
        where = f"{things('stricts')}/good{strict}&fieldManager=m"
        await ask(session, "PATCH", where, applied, **APPLY)
        code, status = await tried(session, "PATCH", where, {**applied, "spec": {"a": "1", "b": 1}}, **APPLY)
        assert (code, ".spec.b: field not declared in schema" in status["message"]) == (500, True) or code == 400
        meta = {"name": "m", "colour": 1}
        template = {"apiVersion": "v1", "kind": "Pod", "metadata": {"colour": 1}}
        for odd, field in (
            (thing("stricts", "x", spec={"b": 1}), "spec.b"),
            ({**thing("stricts", "x"), "metadata": meta}, "metadata.colour"),
            (thing("stricts", "x", spec={"template": template}), "spec.template.metadata.colour"),
            ({**thing("frees", "x"), "metadata": meta}, "metadata.colour"),
        ):
            code, status = await tried(session, "POST", things(odd["kind"].lower(), strict), odd)
            assert (code, f'unknown field "{field}"' in status["message"]) == (400, True), status
        twice = json.dumps(thing("frees", "x", spec={"a": 1})).replace('"a": 1', '"a": 1, "a": 2').encode()
        code, status = await tried(session, "POST", things("frees", strict), twice)
        assert (code, 'duplicate field "spec.a"' in status["message"]) == (400, True), status
        odd = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        code, status = await tried(session, "POST", f"/api/v1/namespaces/default/configmaps{strict}", odd)
        assert (code, 'unknown field "metadata.colour"' in status["message"]) == (400, True)


async def test_defaults_of_a_definition_reach_requests_and_stored_objects(plane: Plane) -> None:
    def defaulting(**fields: Any) -> dict[str, Any]:
        return definition("defaults", {"type": "object", "default": {}, "properties": fields})

    async with plane.client() as session:
        made = await ask(session, "POST", CRDS, defaulting(a=TEXT, b=TEXT))
        await served(session, "defaults")
        await ask(session, "POST", things("defaults"), thing("defaults", "old"))
        path = f"{CRDS}/{made['metadata']['name']}"

        async def shows(spec: dict[str, str]) -> bool:
            return bool((await ask(session, "GET", f"{things('defaults')}/old"))["spec"] == spec)

        for fields, wanted in (
            ({"a": {**TEXT, "default": "A"}, "b": TEXT}, {"a": "A"}),
            ({"a": TEXT, "b": {**TEXT, "default": "B"}}, {"b": "B"}),
        ):
            await ask(session, "PATCH", path, {"spec": {"versions": defaulting(**fields)["spec"]["versions"]}}, **MERGE)
            await until(partial(shows, wanted))
            name = f"new-{next(iter(wanted))}"
            assert (await ask(session, "POST", things("defaults"), thing("defaults", name)))["spec"] == wanted
        stored = await ask(session, "GET", f"{things('defaults')}/new-a")
        assert stored["spec"] == {"a": "A", "b": "B"}


async def test_definitions_are_listed_watched_changed_and_deleted_together(plane: Plane) -> None:
    mine = f"{CRDS}?labelSelector=mark%3Dtogether"
    async with plane.client() as session:
        start = (await ask(session, "GET", mine))["metadata"]["resourceVersion"]
        for number in range(3):
            body = definition(f"group{number}s", FREE)
            body["metadata"]["labels"] = {"mark": "together"}
            await ask(session, "POST", CRDS, body)
            await served(session, f"group{number}s")
        path = f"{CRDS}/group0s.operations.example.com"
        status = await ask(session, "GET", f"{path}/status")
        status["status"]["conditions"].append(SEEN_CONDITION)
        await ask(session, "PUT", f"{path}/status", status)
        await ask(session, "PATCH", f"{path}/status", {"metadata": SEEN}, **MERGE)
        shown = await ask(session, "GET", f"{path}/status")
        assert "Seen" in [condition["type"] for condition in shown["status"]["conditions"]]
        aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
        found = await ask(session, "GET", "/apis", None, Accept=aggregated)
        group = next(item for item in found["items"] if item["metadata"]["name"] == "operations.example.com")
        assert "group0s" in [resource["resource"] for resource in group["versions"][0]["resources"]]
        await ask(session, "DELETE", mine)

        async def gone() -> bool:
            return not (await ask(session, "GET", mine))["items"]

        await until(gone)
        async with watching(session, mine, start) as stream:
            seen = set[str]()
            while seen != {"ADDED", "MODIFIED", "DELETED"}:
                seen.add((await events(stream, 1))[0][0])


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
async def test_immutable_object_changes_its_metadata_only(plane: Plane, plural: str) -> None:
    path = f"/api/v1/namespaces/default/{plural}"
    async with plane.client() as session:
        await ask(session, "POST", path, {"metadata": {"name": "fixed"}, "data": {"a": "MQ=="}})
        await ask(session, "PATCH", f"{path}/fixed", {"data": {"a": "Mg=="}}, **MERGE)
        await ask(session, "PATCH", f"{path}/fixed", {"immutable": True}, **MERGE)
        for change in ({"data": {"a": "Mw=="}}, {"immutable": False}):
            code, status = await tried(session, "PATCH", f"{path}/fixed", change, **MERGE)
            assert (code, "immutable" in status["message"]) == (422, True)
        await ask(session, "PATCH", f"{path}/fixed", {"metadata": SEEN}, **MERGE)
        await ask(session, "DELETE", f"{path}/fixed")


@pytest.mark.parametrize("plural", ["configmaps", "secrets"])
@pytest.mark.parametrize("key", ["", "..", "a/b"])
async def test_keys_that_name_no_file_are_rejected(plane: Plane, plural: str, key: str) -> None:
    body = {"metadata": {"name": "keys"}, "data": {key: "MQ=="}}
    async with plane.client() as session:
        assert (await tried(session, "POST", f"/api/v1/namespaces/default/{plural}", body))[0] == 422


async def test_generation_of_a_pod_counts_changes_of_its_spec(plane: Plane) -> None:
    path = "/api/v1/namespaces/default/pods"
    body = {"metadata": {"name": "counted", "generation": 9}, "spec": {"containers": [CONTAINER], "nodeName": "n"}}
    toleration = [{"key": "a", "operator": "Exists"}]
    async with plane.client() as session:
        made = await ask(session, "POST", path, body)
        assert made["metadata"]["generation"] == 1
        await ask(session, "PATCH", f"{path}/counted", {"metadata": SEEN}, **MERGE)
        tolerations = made["spec"].get("tolerations", []) + toleration
        changed = await ask(session, "PATCH", f"{path}/counted", {"spec": {"tolerations": tolerations}}, **MERGE)
        assert changed["metadata"]["generation"] == 2
        ending = await ask(session, "DELETE", f"{path}/counted")
        assert (ending["metadata"]["generation"], "deletionTimestamp" in ending["metadata"]) == (3, True)
        await ask(session, "DELETE", f"{path}/counted", AT_ONCE)


async def test_published_openapi_follows_the_versions_of_definitions(plane: Plane) -> None:
    one, two = definition("published", STRICT), definition("beside", STRICT)
    old = one["spec"]["versions"][0]
    path = f"{CRDS}/published.operations.example.com"

    async def documented() -> dict[str, set[str]]:
        async with plane.client() as session:
            index = (await ask(session, "GET", "/openapi/v3"))["paths"]
            names = {}
            for name, entry in index.items():
                if "operations.example.com" in name and name.count("/") == 2:
                    schemas = (await ask(session, "GET", entry["serverRelativeURL"]))["components"]["schemas"]
                    names[name.rpartition("/")[2]] = {schema.rpartition(".")[2] for schema in schemas}
            return names

    async def shows(*versions: str) -> bool:
        found = await documented()
        held = {version for version, kinds in found.items() if "Published" in kinds}
        return held == set(versions) and "Beside" in found["v1"]

    async with plane.client() as session:
        for body in (one, two):
            await ask(session, "POST", CRDS, body)
        for versions, wanted in (
            ([old, {**old, "name": "v2", "storage": False}], ("v1", "v2")),
            ([old, {**old, "name": "v3", "storage": False}], ("v1", "v3")),
            ([old, {**old, "name": "v3", "storage": False, "served": False}], ("v1",)),
        ):
            await ask(session, "PATCH", path, {"spec": {"versions": versions}}, **MERGE)
            await until(partial(shows, *wanted))
        definitions = (await ask(session, "GET", "/openapi/v2"))["definitions"]
        assert {"com.example.operations.v1.Published", "com.example.operations.v1.Beside"} <= set(definitions)


def test_kubectl_verbs_of_the_conformance_specs(plane: Plane, tmp_path: Path) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "kubed"}, "spec": {"containers": [CONTAINER]}}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "kubed"}, "spec": SELECTED}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    plane.kubectl("label", "pod", "kubed", "testing=1")
    assert plane.kubectl("get", "pods", "-l", "testing=1", "-o", "name") == "pod/kubed\n"
    image = '{"spec":{"containers":[{"name":"c","image":"other"}]}}'
    plane.kubectl("patch", "pod", "kubed", "-p", image, "--dry-run=server")
    shown = json.loads(plane.kubectl("get", "pod", "kubed", "-o", "json"))
    assert shown["spec"]["containers"][0]["image"] == "i"
    shown["spec"]["containers"][0]["image"] = "replaced"
    assert plane.kubectl("replace", "-f", "-", stdin=json.dumps(shown)) == "pod/kubed replaced\n"
    assert "Kubernetes control plane" in plane.kubectl("cluster-info")
    plane.kubectl("create", "-f", "-", stdin=json.dumps(deployment))
    changed = json.dumps(deployment).replace('"image": "i"', '"image": "busybox"')
    assert "+      - image: busybox" in plane.kubectl("diff", "-f", "-", stdin=changed, check=False)
    for place in ("--port=0", f"--unix-socket={tmp_path / 'proxy'}"):
        command, environment = plane.command("proxy", place), plane.environment
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as proxy:
            assert proxy.stdout is not None
            assert "Starting to serve on" in proxy.stdout.readline()
            proxy.terminate()


async def test_namespace_takes_labels_finalizers_and_conditions(plane: Plane) -> None:
    path = "/api/v1/namespaces/changed"
    async with plane.client() as session:
        await ask(session, "POST", "/api/v1/namespaces", {"metadata": {"name": "changed"}})
        assert (await ask(session, "PATCH", path, {"metadata": SEEN}, **MERGE))["metadata"]["labels"]["seen"] == "yes"
        held = await ask(session, "GET", path)
        held["spec"]["finalizers"].append("example.com/f")
        made = await ask(session, "PUT", f"{path}/finalize", held)
        assert made["spec"]["finalizers"] == ["kubernetes", "example.com/f"]
        made["spec"]["finalizers"].pop()
        assert (await ask(session, "PUT", f"{path}/finalize", made))["spec"]["finalizers"] == ["kubernetes"]
        patched = await ask(session, "PATCH", f"{path}/status", {"status": {"conditions": [SEEN_CONDITION]}}, **MERGE)
        assert patched["status"]["phase"] == "Active"
        patched["status"]["conditions"][0]["message"] = "changed"
        await ask(session, "PUT", f"{path}/status", patched)
        assert (await ask(session, "GET", path))["status"]["conditions"][0]["message"] == "changed"


async def test_table_of_what_is_not_stored_is_not_acceptable(plane: Plane) -> None:
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    async with plane.client() as session:
        code, status = await tried(
            session, "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, **TABLE
        )
        assert (code, status["reason"]) == (406, "NotAcceptable")


async def test_review_with_a_selector_in_two_forms_is_invalid(plane: Plane) -> None:
    term = {"key": "spec.nodeName", "operator": "In", "values": ["n1"]}
    selector = {"rawSelector": "spec.nodeName=n2", "requirements": [term]}
    review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "fieldSelector": selector}}}
    async with plane.client() as session:
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        code, status = await tried(session, "POST", path, review)
        field = "spec.resourceAttributes.fieldSelector.rawSelector"
        assert (code, status["details"]["causes"][0]["field"]) == (422, field)


async def test_version_and_preferred_versions_are_those_served(plane: Plane) -> None:
    async with plane.client() as session:
        found = await ask(session, "GET", "/version")
        assert (int(found["major"]), int(found["minor"])) == (1, 36)
        for group in (await ask(session, "GET", "/apis"))["groups"]:
            versions = [each["groupVersion"] for each in group["versions"]]
            assert group["preferredVersion"]["groupVersion"] in versions
            for version in versions:
                listed = await ask(session, "GET", f"/apis/{version}")
                assert (listed["groupVersion"], bool(listed["resources"])) == (version, True)


async def test_patch_that_drops_the_version_of_a_lease_is_invalid(plane: Plane) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    async with plane.client() as session:
        await ask(session, "POST", path, {"metadata": {"name": "versioned"}})
        change = {"metadata": {"resourceVersion": None}}
        code, status = await tried(session, "PATCH", f"{path}/versioned", change, **MERGE)
        assert (code, status["details"]["causes"][0]["field"]) == (422, "metadata.resourceVersion")
        await ask(session, "PATCH", f"{path}/versioned", {"metadata": SEEN}, **MERGE)


async def test_token_of_an_account_passes_a_review(plane: Plane) -> None:
    path = "/api/v1/namespaces/default/serviceaccounts"
    async with plane.client() as session:
        await ask(session, "POST", path, {"metadata": {"name": "reviewed"}})
        token = (await ask(session, "POST", f"{path}/reviewed/token", {"spec": {}}))["status"]["token"]
        reviewed = await ask(session, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
        assert reviewed["status"]["authenticated"]
        assert reviewed["status"]["user"]["username"] == "system:serviceaccount:default:reviewed"


async def test_watches_begun_at_any_event_see_the_same_order(plane: Plane) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    mine = f"{path}?labelSelector=mark%3Dorder"
    async with plane.client() as session:
        versions = [(await ask(session, "GET", mine))["metadata"]["resourceVersion"]]
        for number in range(6):
            body = {"metadata": {"name": f"order-{number}", "labels": {"mark": "order"}}}
            versions.append((await ask(session, "POST", path, body))["metadata"]["resourceVersion"])
        for begun, version in enumerate(versions[:-1]):
            async with watching(session, mine, version) as stream:
                seen = await events(stream, 6 - begun)
            assert [obj["metadata"]["resourceVersion"] for _, obj in seen] == versions[begun + 1 :]

"""Server-side apply and field validation as clients meet them: kubectl as it is, and the wire."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import ClientSession

from tests.support.apiserver_plane import Plane
from tests.support.shared_fixtures import apiserver_on_each_store

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
APPLY = {"Content-Type": "application/apply-patch+yaml"}
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}

plane = apiserver_on_each_store


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, **container: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "busybox", **container}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def ask(
    session: ClientSession, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, dict[str, Any], list[str]]:
    """Code, body, warnings."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", "User-Agent": "tester/1.0", **(headers or {})}
    async with session.request(method, path, data=data, headers=sent) as answer:
        return answer.status, await answer.json(), answer.headers.getall("Warning", [])


def managers(obj: dict[str, Any]) -> dict[tuple[str, str, str], dict[str, Any]]:
    entries = obj["metadata"].get("managedFields", [])
    assert all(entry["fieldsType"] == "FieldsV1" and entry["time"] for entry in entries)
    return {(e["manager"], e["operation"], e.get("subresource", "")): e["fieldsV1"] for e in entries}


async def test_appliers_share_conflict_force_and_let_go(plane: Plane) -> None:
    async with plane.client() as session:
        path = f"{MAPS}/shared"
        code, made, _ = await ask(
            session, "PATCH", f"{path}?fieldManager=one", config_map("shared", a="1", b="1"), APPLY
        )
        assert code == 201
        assert managers(made) == {("one", "Apply", ""): {"f:data": {"f:a": {}, "f:b": {}}}}
        code, same, _ = await ask(
            session, "PATCH", f"{path}?fieldManager=one", config_map("shared", a="1", b="1"), APPLY
        )
        assert same["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        code, _, _ = await ask(session, "PATCH", f"{path}?fieldManager=two", config_map("shared", a="1"), APPLY)
        assert code == 200
        code, status, _ = await ask(
            session, "PATCH", f"{path}?fieldManager=two", config_map("shared", a="2", b="2"), APPLY
        )
        assert (code, status["reason"]) == (409, "Conflict")
        assert status["message"] == ('Apply failed with 2 conflicts: conflicts with "one":\n- .data.a\n- .data.b')
        cause = {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}
        assert status["details"]["causes"][0] == cause
        forced = f"{path}?fieldManager=two&force=true"
        code, made, _ = await ask(session, "PATCH", forced, config_map("shared", a="2"), APPLY)
        assert (code, made["data"]) == (200, {"a": "2", "b": "1"})
        assert managers(made)["one", "Apply", ""] == {"f:data": {"f:b": {}}}
        code, made, _ = await ask(session, "PATCH", f"{path}?fieldManager=one", config_map("shared"), APPLY)
        assert made["data"] == {"a": "2"}


async def test_appliers_of_a_new_object_at_once_all_apply(plane: Plane) -> None:
    async with plane.client() as session:
        for name in (f"at-once-{number}" for number in range(10)):
            applied = (
                ask(session, "PATCH", f"{MAPS}/{name}?fieldManager={who}", config_map(name, **{who: "x"}), APPLY)
                for who in ("one", "two", "three", "four")
            )
            codes = [code for code, _, _ in await asyncio.gather(*applied)]
            assert sorted(codes) == [200, 200, 200, 201], "the others change what the first creates"
            _, made, _ = await ask(session, "GET", f"{MAPS}/{name}")
            assert set(made["data"]) == {who for who, _, _ in managers(made)} == {"one", "two", "three", "four"}


async def test_ordinary_writes_own_what_they_changed(plane: Plane) -> None:
    async with plane.client() as session:
        _, made, _ = await ask(session, "POST", f"{MAPS}?fieldManager=author", config_map("plain", a="1"))
        assert managers(made) == {("author", "Update", ""): {"f:data": {".": {}, "f:a": {}}}}
        _, made, _ = await ask(session, "PATCH", f"{MAPS}/plain", {"data": {"b": "2"}}, MERGE)
        assert managers(made)["tester", "Update", ""] == {"f:data": {"f:b": {}}}
        again = await ask(session, "PATCH", f"{MAPS}/plain", {"data": {"b": "2"}}, MERGE)
        assert again[1]["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
        made["data"] = {"b": "3"}
        _, made, _ = await ask(session, "PUT", f"{MAPS}/plain?fieldManager=putter", made)
        assert managers(made) == {
            ("author", "Update", ""): {"f:data": {}},
            ("putter", "Update", ""): {"f:data": {"f:b": {}}},
        }
        reset = [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]
        _, made, _ = await ask(session, "PATCH", f"{MAPS}/plain", reset, JSON_PATCH)
        assert "managedFields" not in made["metadata"]


async def test_status_has_owners_of_its_own(plane: Plane) -> None:
    async with plane.client() as session:
        await ask(session, "PATCH", f"{PODS}/split?fieldManager=one", pod("split"), APPLY)
        told = {"status": {"conditions": [{"type": "X", "status": "True"}]}}
        _, made, _ = await ask(session, "PATCH", f"{PODS}/split/status?fieldManager=node", told, MERGE)
        assert ("node", "Update", "status") in managers(made)
        assert set(managers(made)["one", "Apply", ""]) == {"f:spec"}
        wanted = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "split"}}
        wanted["status"] = {"conditions": [{"type": "Y", "status": "True"}]}
        code, made, _ = await ask(session, "PATCH", f"{PODS}/split/status?fieldManager=y", wanted, APPLY)
        assert code == 200
        assert {c["type"] for c in made["status"]["conditions"]} >= {"X", "Y"}
        assert set(managers(made)["y", "Apply", "status"]) == {"f:status"}


BAD_APPLIES = [
    ("", config_map("bad", a="1"), 422, "fieldManager: Required value"),
    ("?fieldManager=m", {**config_map("bad"), "apiVersion": "v2"}, 400, "Incorrect version specified in apply patch"),
    ("?fieldManager=m", {**config_map("bad"), "metadata": {"name": "bad", "managedFields": [{}]}}, 400, "must be nil"),
    ("?fieldManager=m", {**config_map("bad"), "colour": 1}, 400, ".colour: field not declared in schema"),
    ("?fieldManager=m", [], 400, "object"),
    ("?fieldManager=m", b"{: -", 400, "error decoding patch"),
]


@pytest.mark.parametrize(("query", "body", "wanted", "text"), BAD_APPLIES)
async def test_bad_applies_get_their_status(plane: Plane, query: str, body: Any, wanted: int, text: str) -> None:
    async with plane.client() as session:
        code, status, _ = await ask(session, "PATCH", f"{MAPS}/bad{query}", body, APPLY)
        assert (code, status["kind"]) == (wanted, "Status"), status
        assert text in status["message"]
        assert (await ask(session, "GET", f"{MAPS}/bad"))[0] == 404


async def test_field_validation_of_whole_bodies(plane: Plane) -> None:
    odd = pod("odd", colour="red")
    odd["spec"]["nonsense"] = {}

    async with plane.client() as session:
        code, status, _ = await ask(session, "POST", f"{PODS}?fieldValidation=Strict", odd)
        assert code == 400
        assert status["message"] == (
            'Pod in version "v1" cannot be handled as a Pod: strict decoding error: '
            'unknown field "spec.containers[0].colour", unknown field "spec.nonsense"'
        )
        _, made, warnings = await ask(session, "POST", f"{PODS}?dryRun=All", odd)
        assert warnings == [
            '299 - "unknown field \\"spec.containers[0].colour\\""',
            '299 - "unknown field \\"spec.nonsense\\""',
        ]
        assert "nonsense" not in made["spec"]
        _, made, warnings = await ask(session, "POST", f"{PODS}?dryRun=All&fieldValidation=Ignore", odd)
        assert warnings == []
        assert "nonsense" not in made["spec"]
        owned = config_map("owned")
        owned["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}] * 2
        _, made, warnings = await ask(session, "POST", f"{MAPS}?dryRun=All&fieldValidation=Ignore", owned)
        assert "duplicate UID(s) observed: u" in warnings[0]
        assert len(made["metadata"]["ownerReferences"]) == 1
        twice = json.dumps(config_map("twice", a="1")).replace('"a": "1"', '"a": "1", "a": "2"').encode()
        _, _, warnings = await ask(session, "POST", f"{MAPS}?dryRun=All", twice)
        assert warnings == ['299 - "duplicate field \\"data.a\\""']
        code, status, _ = await ask(session, "POST", f"{MAPS}?fieldValidation=Strict", twice)
        assert (code, 'strict decoding error: duplicate field "data.a"' in status["message"]) == (400, True)


WRONG_TYPES = [
    (pod("w", ports=[{"containerPort": "80"}]), "cannot unmarshal string into Go struct field ContainerPort.spec"),
    (pod("w", tty=1), "cannot unmarshal number into Go struct field Container.spec.containers.tty of type bool"),
    (
        pod("w", args="x"),
        "cannot unmarshal string into Go struct field Container.spec.containers.args of type []string",
    ),
    (pod("w", image=3), "cannot unmarshal number into Go struct field Container.spec.containers.image of type string"),
    (pod("w", resources={"limits": {"cpu": "many"}}), "quantities must match the regular expression"),
]


@pytest.mark.parametrize(("body", "text"), WRONG_TYPES)
@pytest.mark.parametrize("mode", ["Ignore", "Warn", "Strict"])
async def test_wrong_types_are_refused_in_every_mode(plane: Plane, body: Any, text: str, mode: str) -> None:
    async with plane.client() as session:
        code, status, _ = await ask(session, "POST", f"{PODS}?fieldValidation={mode}", body)
        assert (code, status["reason"]) == (400, "BadRequest")
        assert status["message"].startswith('Pod in version "v1" cannot be handled as a Pod: ')
        assert text in status["message"]


async def test_field_validation_of_patches(plane: Plane) -> None:
    async with plane.client() as session:
        await ask(session, "POST", MAPS, config_map("patched", a="1"))
        strict = f"{MAPS}/patched?fieldValidation=Strict"
        for body, headers in (
            ({"colour": 1}, MERGE),
            ({"colour": 1}, {"Content-Type": "application/strategic-merge-patch+json"}),
            ([{"op": "add", "path": "/colour", "value": 1}], JSON_PATCH),
        ):
            code, status, _ = await ask(session, "PATCH", strict, body, headers)
            assert (code, status["reason"]) == (422, "Invalid")
            assert 'strict decoding error: unknown field "colour"' in status["message"]
            code, made, warnings = await ask(session, "PATCH", f"{MAPS}/patched", body, headers)
            assert (code, warnings) == (200, ['299 - "unknown field \\"colour\\""'])
            assert "colour" not in made
        code, status, _ = await ask(session, "PATCH", f"{MAPS}/patched", {"data": {"a": 1}}, MERGE)
        assert (code, "cannot unmarshal number" in status["message"]) == (422, True)


def test_kubectl_applies_on_the_servers_side(plane: Plane) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert "serverside-applied" in plane.kubectl(*apply, stdin=json.dumps(config_map("kube", a="1", b="1")))
    plane.kubectl("patch", "configmap", "kube", "-p", '{"data": {"a": "2"}}', "--field-manager=other")
    told = plane.kubectl(*apply, stdin=json.dumps(config_map("kube", a="1", b="1")), check=False)
    assert 'conflict with "other" using v1: .data.a' in told
    plane.kubectl(*apply, "--force-conflicts", stdin=json.dumps(config_map("kube", a="1")))
    assert json.loads(plane.kubectl("get", "configmap", "kube", "-o", "json"))["data"] == {"a": "1"}
    shown = plane.kubectl("get", "configmap", "kube", "-o", "yaml", "--show-managed-fields")
    assert [entry["manager"] for entry in yaml.safe_load(shown)["metadata"]["managedFields"]] == ["kubectl"]


def test_kubectl_moves_from_client_side_to_server_side(plane: Plane) -> None:
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(config_map("moved", a="1", b="1")))
    plane.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(config_map("moved", a="2")))
    assert json.loads(plane.kubectl("get", "configmap", "moved", "-o", "json"))["data"] == {"a": "2"}


def test_kubectl_reports_a_typo(plane: Plane) -> None:
    typo = yaml.safe_dump(pod("typo")).replace("image:", "imgae:")
    told = plane.kubectl("apply", "--validate=strict", "-f", "-", stdin=typo, check=False)
    assert 'strict decoding error: unknown field "spec.containers[0].imgae"' in told
    warned = plane.kubectl(
        "apply", "--validate=warn", "-f", "-", stdin=yaml.safe_dump({**config_map("typo"), "dta": {}}), check=False
    )
    assert 'Warning: unknown field "dta"' in warned
    assert "configmap/typo created" in warned


def test_kubectl_edits(plane: Plane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nexec sed -i 's/old-value/new-value/' \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("KUBE_EDITOR", str(editor))
    plane.kubectl("apply", "-f", "-", stdin=json.dumps(config_map("edited", a="old-value")))
    assert "configmap/edited edited" in plane.kubectl("edit", "configmap", "edited")
    found = json.loads(plane.kubectl("get", "configmap", "edited", "-o", "json", "--show-managed-fields"))
    assert found["data"] == {"a": "new-value"}
    assert managers(found)["kubectl-edit", "Update", ""]["f:data"] == {"f:a": {}}

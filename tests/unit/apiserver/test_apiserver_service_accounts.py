"""Admission of pods by their service account, against upstream's rules and texts."""

from typing import Any

import pytest

from actors.apiserver.api.errors import Forbidden
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.user import User
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.table import TABLE
from actors.apiserver.writes.admission import service_accounts
from actors.apiserver.writes.admission.admission import Admission
from actors.apiserver.writes.admission.rule import Dependencies, FindAccount, Step
from actors.apiserver.writes.change import Change
from protocols.kube.meta import Object
from tests.unit.apiserver.test_apiserver_rbac import defaults, node_rules, nothing

PLACE = "/var/run/secrets/kubernetes.io/serviceaccount"
ROOT = User("root", ("system:masters",))
TARGET = Target(TABLE.of("pods"), "create", "ns")


def new(**spec: Any) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}, {"name": "b"}], **spec}}


async def complete(target: Target, pod: Object, find: FindAccount) -> None:
    admission = Admission(Dependencies(Authorizer(node_rules(), defaults), nothing, find))
    change = Change(target, ROOT, new=pod)
    await admission.rules(change).run(Step.COMPLETE, change)


async def admitted(pod: Object, accounts: dict[str, Object], target: Target = TARGET) -> Object:
    async def find(namespace: str, name: str) -> Object | None:
        return accounts.get(f"{namespace}/{name}")

    await complete(target, pod, find)
    return pod


def token_places(pod: Object) -> list[list[str]]:
    """Where each container of a pod finds the token of its account."""
    volumes = {v["name"]: v for v in pod["spec"].get("volumes", ())}
    mounts = [
        c.get("volumeMounts", ()) for field in ("initContainers", "containers") for c in pod["spec"].get(field, ())
    ]
    return [[m["mountPath"] for m in given if "projected" in volumes[m["name"]]] for given in mounts]


async def test_account_unnamed_is_the_default_with_its_token() -> None:
    pod = await admitted(new(initContainers=[{"name": "i"}]), {"ns/default": {}})
    assert (pod["spec"]["serviceAccountName"], pod["spec"]["serviceAccount"]) == ("default", "default")
    assert token_places(pod) == [[PLACE]] * 3
    [volume] = pod["spec"]["volumes"]
    assert volume == {
        "name": volume["name"],
        "projected": {
            "defaultMode": 0o644,
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
                ]}},
            ],
        },
    }  # fmt: skip
    assert volume["name"].startswith("kube-api-access-")
    assert len(volume["name"]) == 21
    mount = {"name": volume["name"], "readOnly": True, "mountPath": PLACE}
    assert [container["volumeMounts"] for container in pod["spec"]["containers"]] == [[mount]] * 2


@pytest.mark.parametrize(
    ("own", "accounts", "mounted"),
    [(None, None, True), (None, False, False), (True, False, True), (False, True, False), (False, None, False)],
)
async def test_token_opt_out_of_pod_overrides_its_account(
    own: bool | None, accounts: bool | None, mounted: bool
) -> None:
    pod = new() if own is None else new(automountServiceAccountToken=own)
    account = {} if accounts is None else {"automountServiceAccountToken": accounts}
    assert token_places(await admitted(pod, {"ns/default": account})) == [[PLACE] if mounted else []] * 2


async def test_token_keeps_a_mount_and_a_volume_of_the_pod() -> None:
    kept = new(volumes=[{"name": "mine", "emptyDir": {}}])
    kept["spec"]["containers"][0]["volumeMounts"] = [{"name": "mine", "mountPath": PLACE}]
    assert token_places(await admitted(kept, {"ns/default": {}})) == [[], [PLACE]]
    assert [list(v) for v in kept["spec"]["volumes"]] == [["name", "emptyDir"], ["name", "projected"]]
    again = new(volumes=[{"name": "kube-api-access-abcde", "projected": {"sources": []}}])
    assert token_places(await admitted(again, {"ns/default": {}})) == [[PLACE], [PLACE]]
    assert len(again["spec"]["volumes"]) == 1


async def test_account_missing_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_accounts, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(service_accounts, "LAST_PAUSE_S", 0.0)
    for name, pod in (("bot", new(serviceAccountName="bot")), ("default", new())):
        with pytest.raises(Forbidden) as caught:
            await admitted(pod, {"other/bot": {}})
        text = f'error looking up service account ns/{name}: serviceaccount "{name}" not found'
        assert str(caught.value) == f'pods "p" is forbidden: {text}'


async def test_account_default_of_a_new_namespace_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_accounts, "FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(service_accounts, "LAST_PAUSE_S", 0.0)
    answers: list[Object | None] = [None, None, {}]

    async def find(namespace: str, name: str) -> Object | None:
        return answers.pop(0)

    pod = new()
    await complete(TARGET, pod, find)
    assert token_places(pod) == [[PLACE], [PLACE]]


async def test_mirror_pod_gets_nothing_of_an_account() -> None:
    mirror = new()
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    await admitted(mirror, {})
    assert mirror["spec"] == new()["spec"]


async def test_binding_of_a_pod_needs_no_account() -> None:
    body: Object = {"metadata": {"name": "p"}, "target": {"name": "n1"}, "spec": {}}
    binding = Target(TABLE.of("pods"), "create", "ns", "p", "binding")
    assert (await admitted(body, {}, binding))["spec"] == {}


async def test_pull_secrets_of_an_account_come_to_a_pod_without_its_own() -> None:
    accounts: dict[str, Object] = {"ns/default": {"imagePullSecrets": [{"name": "reg"}]}}
    pod = await admitted(new(), accounts)
    assert pod["spec"]["imagePullSecrets"] == [{"name": "reg"}]
    own = await admitted(new(imagePullSecrets=[{"name": "mine"}]), accounts)
    assert own["spec"]["imagePullSecrets"] == [{"name": "mine"}]

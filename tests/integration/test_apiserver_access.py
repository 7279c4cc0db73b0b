"""Who may do what, asked by an unmodified kubectl: roles, tokens, reviews, acting as another; and what is noted."""

import base64
import hashlib
import json
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from actors.apiserver.http.authentication.authenticator import TOKEN_PROTOCOL
from tests.support import waiting
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.authority import Authority
from tests.support.waiting import until_async

BOT = "system:serviceaccount:default:bot"
PODS = "/api/v1/namespaces/default/pods"
OK = 200
PATIENCE = 60.0


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """An API server with a service account and its role."""
    with running_plane() as started:
        started.kubectl("create", "serviceaccount", "bot")
        started.kubectl("create", "role", "pod-reader", "--verb=get,list,watch", "--resource=pods")
        started.kubectl("create", "rolebinding", "bot-reads", "--role=pod-reader", "--serviceaccount=default:bot")
        until(lambda: may_list(started))
        yield started


def until(holds: Callable[[], Any]) -> None:
    waiting.until("what the test expects", holds, PATIENCE)


def may_list(plane: Plane) -> bool:
    return plane.kubectl("auth", "can-i", "list", "pods", f"--as={BOT}", check=False).strip() == "yes"


def as_token(plane: Plane, token: str, *arguments: str) -> str:
    """kubectl with a kubeconfig that holds nothing but the token and the CA."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": plane.url, "certificate-authority": str(ca(plane))}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = plane.root / "token.kubeconfig"
    path.write_text(json.dumps(config))
    return plane.kubectl("--kubeconfig", str(path), *arguments, check=False)


def ca(plane: Plane) -> Path:
    return plane.settings.layout.ca_cert


async def ask(
    plane: Plane, method: str, path: str, body: Any = None, token: str = "", user: str = "", **headers: str
) -> tuple[int, Any, Any]:
    if token:
        headers["Authorization"] = f"Bearer {token}"
    headers = {key.replace("_", "-"): value for key, value in headers.items()}
    async with plane.client(user) as session, session.request(method, path, json=body, headers=headers) as answer:
        text = await answer.text()
        return answer.status, json.loads(text) if text.startswith("{") else text, answer.headers


def test_a_token_is_good_for_the_pods_of_one_namespace(plane: Plane) -> None:
    token = plane.kubectl("create", "token", "bot", "--duration=20m").strip()
    assert "No resources found" in as_token(plane, token, "get", "pods")
    for refused in (
        ("get", "secrets"),
        ("get", "pods", "-A"),
        ("get", "pods", "-n", "kube-node-lease"),
        ("get", "nodes"),
    ):
        assert "Forbidden" in as_token(plane, token, *refused)
    assert f'User "{BOT}" cannot create resource "configmaps"' in as_token(
        plane, token, "create", "configmap", "mine", "--from-literal=a=b"
    )
    whoami = json.loads(as_token(plane, token, "auth", "whoami", "-o", "json"))["status"]["userInfo"]
    account = json.loads(plane.kubectl("get", "serviceaccount", "bot", "-o", "json"))
    assert (whoami["username"], whoami["uid"]) == (BOT, account["metadata"]["uid"])
    assert "system:serviceaccounts:default" in whoami["groups"]


def test_can_i(plane: Plane) -> None:
    assert plane.kubectl("auth", "can-i", "delete", "nodes").strip() == "yes"
    as_bot = (f"--as={BOT}",)
    assert plane.kubectl("auth", "can-i", "list", "pods", *as_bot).strip() == "yes"
    for question in (
        ("list", "pods", "-n", "kube-node-lease"),
        ("delete", "pods"),
        ("get", "pods", "--subresource=log"),
    ):
        assert plane.kubectl("auth", "can-i", *question, *as_bot, check=False).strip() == "no"
    assert (
        plane.kubectl("auth", "can-i", "get", "/openid/v1/jwks", "--as=x", "--as-group=system:serviceaccounts")
        == "yes\n"
    )
    listed = plane.kubectl("auth", "can-i", "--list", *as_bot)
    assert any(line.split() == ["pods", "[]", "[]", "[get", "list", "watch]"] for line in listed.splitlines())
    assert "Username" in plane.kubectl("auth", "whoami")


def test_rights_follow_the_objects(plane: Plane) -> None:
    def may(verb: str) -> bool:
        return plane.kubectl("auth", "can-i", verb, "leases", "--as=carl", check=False).strip() == "yes"

    assert not may("list")
    plane.kubectl("create", "clusterrole", "leaser", "--verb=list", "--resource=leases")
    plane.kubectl("create", "clusterrolebinding", "carl-leases", "--clusterrole=leaser", "--user=carl")
    until(lambda: may("list"))
    patch = '[{"op": "add", "path": "/rules/0/verbs/-", "value": "create"}]'
    plane.kubectl("patch", "clusterrole", "leaser", "--type=json", "-p", patch)
    until(lambda: may("create"))
    assert "cannot change roleRef" in plane.kubectl(
        "patch", "clusterrolebinding", "carl-leases", "-p", '{"roleRef": {"name": "view"}}', check=False
    )
    plane.kubectl("delete", "clusterrolebinding", "carl-leases")
    until(lambda: not may("list"))
    assert "CREATED AT" in plane.kubectl("get", "clusterroles")
    assert "ClusterRole/view" in plane.kubectl(
        "create", "rolebinding", "v", "--clusterrole=view", "--group=g"
    ) + plane.kubectl("get", "rolebindings")


def test_nobody_raises_themselves(plane: Plane) -> None:
    plane.kubectl("create", "rolebinding", "dora-admin", "--clusterrole=admin", "--user=dora")
    as_dora = ("--as=dora",)
    until(lambda: plane.kubectl("auth", "can-i", "create", "roles", *as_dora, check=False) == "yes\n")
    plane.kubectl("create", "role", "some", "--verb=get", "--resource=pods,secrets", *as_dora)
    refused = plane.kubectl("create", "role", "more", "--verb=get", "--resource=nodes", *as_dora, check=False)
    assert "is attempting to grant RBAC permissions not currently held" in refused
    refused = plane.kubectl(
        "create", "rolebinding", "all", "--clusterrole=cluster-admin", "--user=dora", *as_dora, check=False
    )
    assert "is attempting to grant RBAC permissions not currently held" in refused
    refused = plane.kubectl("get", "pods", "--as=dora", "--as-group=system:masters", check=False)
    assert "Forbidden" not in refused
    token = plane.kubectl("create", "token", "bot").strip()
    assert "cannot impersonate" in as_token(plane, token, "get", "pods", "--as=admin")


def test_constrained_impersonation_is_for_some_requests_only(plane: Plane) -> None:
    token = plane.kubectl("create", "token", "bot").strip()
    rules = [
        {"verbs": ["impersonate:user-info"], "apiGroups": ["authentication.k8s.io"], "resources": ["users"]},
        {"verbs": ["impersonate-on:user-info:list"], "apiGroups": ["*"], "resources": ["secrets"]},
        {"verbs": ["impersonate-on:user-info:create"], "apiGroups": ["*"], "resources": ["pods/exec"]},
    ]
    metadata = {"name": "lister"}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
    plane.kubectl("create", "-f", "-", stdin=json.dumps(role))
    plane.kubectl("create", "clusterrolebinding", "bot-lists", "--clusterrole=lister", "--serviceaccount=default:bot")
    plane.kubectl("create", "clusterrolebinding", "eve-admin", "--clusterrole=cluster-admin", "--user=eve")
    as_eve = partial(as_token, plane, token)
    until(lambda: "Forbidden" not in as_eve("get", "secrets", "--as=eve"))
    refused = 'cannot impersonate-on:user-info:delete resource "secrets" in API group "" in the namespace "default"'
    assert refused in as_eve("delete", "secret", "any", "--as=eve")
    assert '"none" not found' in as_eve("get", "--raw", f"{PODS}/none/exec?command=x&stdin=1", "--as=eve")
    assert "cannot impersonate-on:user-info:get path" in as_eve("get", "--raw", "/metrics", "--as=eve")


def test_tokens_end_with_their_account_and_their_pod(plane: Plane) -> None:
    plane.kubectl("create", "serviceaccount", "brief")
    for name in ("held", "other"):
        image = json.dumps({"spec": {"serviceAccountName": "brief" if name == "held" else "bot", "nodeName": "n1"}})
        plane.kubectl("run", name, "--image=x", "--overrides", image)
    bound = plane.kubectl("create", "token", "brief", "--bound-object-kind=Pod", "--bound-object-name=held").strip()
    free = plane.kubectl("create", "token", "brief").strip()
    assert "different serviceaccount name" in plane.kubectl(
        "create", "token", "brief", "--bound-object-kind=Pod", "--bound-object-name=other", check=False
    )
    extra = json.loads(as_token(plane, bound, "auth", "whoami", "-o", "json"))["status"]["userInfo"]["extra"]
    assert extra["authentication.kubernetes.io/pod-name"] == ["held"]
    plane.kubectl("delete", "pod", "held", "--force", "--grace-period=0")
    until(lambda: "Unauthorized" in as_token(plane, bound, "get", "pods"))
    assert "Unauthorized" not in as_token(plane, free, "auth", "whoami")
    plane.kubectl("delete", "serviceaccount", "brief")
    until(lambda: "Unauthorized" in as_token(plane, free, "get", "pods"))
    assert "10 minutes" in plane.kubectl("create", "token", "bot", "--duration=10s", check=False)
    assert '"nobody" not found' in plane.kubectl("create", "token", "nobody", check=False)


async def test_credentials_that_prove_nothing_are_refused(plane: Plane) -> None:
    good = plane.kubectl("create", "token", "bot").strip()
    head, body, signature = good.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    claims["sub"] = "system:serviceaccount:kube-system:admin"
    forged = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    for token in ("x", "a.b.c", f"{head}.{forged}.{signature}", f"{head}.{body}.", good[:-4], "x" * 7000):
        code, status, headers = await ask(plane, "GET", "/version", token=token)
        assert (code, status["reason"]) == (401, "Unauthorized"), token
        assert headers["WWW-Authenticate"].startswith("Bearer")
    assert (await ask(plane, "GET", PODS, token=good))[0] == 200
    assert (await ask(plane, "GET", "/version"))[0] == 200  # nobody in particular
    assert (await ask(plane, "GET", PODS))[0] == 401
    assert (await ask(plane, "GET", "/version", Authorization="Basic YTpi"))[0] == 401


async def test_reviews(plane: Plane) -> None:
    async def review(group: str, kind: str, spec: Any, user: str = "admin", namespace: str = "") -> tuple[int, Any]:
        where = f"namespaces/{namespace}/" if namespace else ""
        body = {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec}
        path = f"/apis/{group}/v1/{where}{kind.lower()}s"
        code, answer, _ = await ask(plane, "POST", path, body, user=user)
        return code, answer.get("status")

    authentication, authorization = "authentication.k8s.io", "authorization.k8s.io"
    token = plane.kubectl("create", "token", "bot", "--audience=vault").strip()
    assert (await ask(plane, "GET", PODS, token=token))[0] == 401  # not for us
    code, status = await review(authentication, "TokenReview", {"token": token, "audiences": ["vault", "x"]})
    assert (code, status["authenticated"], status["audiences"]) == (201, True, ["vault"])
    assert status["user"]["username"] == BOT
    code, status = await review(authentication, "TokenReview", {"token": token})
    assert (code, status["authenticated"]) == (201, False)
    assert (await review(authentication, "TokenReview", {}))[0] == 400
    pods = {"resource": "pods", "verb": "list", "namespace": "default"}
    code, status = await review(authorization, "SubjectAccessReview", {"user": BOT, "resourceAttributes": pods})
    assert (code, status["allowed"]) == (201, True)
    assert status["reason"] == f'RBAC: allowed by RoleBinding "bot-reads/default" of Role "pod-reader" to User "{BOT}"'
    mine = {"resourceAttributes": {**pods, "fieldSelector": {
        "requirements": [{"key": "spec.nodeName", "operator": "In", "values": ["n1"]}]}}}  # fmt: skip
    for user, allowed in (("podworker", True), ("admin", True), ("stranger", False)):
        code, status = await review(authorization, "SelfSubjectAccessReview", mine, user)
        assert (code, status["allowed"]) == (201, allowed)
    for spec, code in (
        ({}, 422),
        ({"user": "x"}, 422),
        ({"resourceAttributes": pods}, 422),
        ({"user": "x", "resourceAttributes": pods, "nonResourceAttributes": {}}, 422),
        ({"user": "x", "resourceAttributes": {}}, 201),
        ({"user": 3, "groups": "x", "nonResourceAttributes": {"path": 1}}, 201),
        (7, 400),
    ):
        assert (await review(authorization, "SubjectAccessReview", spec))[0] == code, spec
    local = {"user": BOT, "resourceAttributes": pods}
    assert (await review(authorization, "LocalSubjectAccessReview", local, namespace="default"))[1]["allowed"]
    assert (await review(authorization, "LocalSubjectAccessReview", local, namespace="kube-node-lease"))[0] == 422
    kind, spec = "LocalSubjectAccessReview", {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}}
    where = f"/apis/{authorization}/v1/namespaces/default/{kind.lower()}s"
    body = {"apiVersion": f"{authorization}/v1", "kind": kind, "spec": spec}
    _, answer, _ = await ask(plane, "POST", where, body, user="admin")
    fields = [cause["field"] for cause in answer["details"]["causes"]]
    assert fields == ["spec.user", "spec.nonResourceAttributes"]
    assert "disallowed on this kind of request" in answer["message"]
    assert (await review(authorization, "SubjectAccessReview", local, user="stranger"))[0] == 403
    assert (await review(authorization, "SelfSubjectRulesReview", {}))[0] == 400
    code, answer, _ = await ask(plane, "GET", f"/apis/{authorization}/v1/subjectaccessreviews", user="admin")
    assert (code, answer["reason"]) == (405, "MethodNotAllowed")


async def test_what_a_node_reads_and_signs(plane: Plane) -> None:
    containers = [{"name": "c", "image": "x", "envFrom": [{"secretRef": {"name": "used"}}]}]
    volumes = [{"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]
    spec = {"containers": containers, "volumes": volumes, "nodeName": "n1", "serviceAccountName": "bot"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "user"}, "spec": spec}
    code, made, _ = await ask(plane, "POST", PODS, pod, user="admin")
    assert code == 201
    secrets = "/api/v1/namespaces/default/secrets"
    for name in ("used", "unused"):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        assert (await ask(plane, "POST", secrets, secret, user="admin"))[0] == 201

    async def node(method: str, path: str, body: Any = None) -> int:
        return (await ask(plane, method, path, body, user="podworker"))[0]

    await until_async(
        "the server shows the pod that names it", lambda: node("GET", f"{secrets}/used"), PATIENCE, good=OK.__eq__
    )
    assert await node("GET", f"{secrets}?fieldSelector=metadata.name%3Dused") == 200
    assert await node("GET", f"{secrets}/unused") == 403
    assert await node("GET", secrets) == 403
    assert await node("DELETE", f"{secrets}/used") == 403
    token = "/api/v1/namespaces/default/serviceaccounts/bot/token"

    def request(**bound: str) -> Any:
        reference = {"kind": "Pod", "apiVersion": "v1", **bound} if bound else None
        return {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"boundObjectRef": reference},
        }

    assert await node("POST", token, request(name="user", uid=made["metadata"]["uid"])) == 201
    assert await node("POST", token, request(name="user", uid="another")) == 403
    assert await node("POST", token, request(name="user")) == 403
    assert await node("POST", token, request()) == 403
    assert await node("POST", token.replace("bot", "default"), request(name="user")) == 403
    own = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    assert await node("POST", "/api/v1/nodes", own) == 201
    merge = {"Content_Type": "application/merge-patch+json"}
    for patch, code in (
        ({"metadata": {"labels": {"mine.example/x": "1"}}}, 200),
        ({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}, 403),
        ({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, 403),
    ):
        found = await ask(plane, "PATCH", "/api/v1/nodes/n1", patch, user="podworker", **merge)
        assert found[0] == code, found[1]


async def test_metrics_need_the_right_of_monitoring(plane: Plane) -> None:
    bot = plane.kubectl("create", "token", "bot").strip()
    code, answer, _ = await ask(plane, "GET", "/metrics", token=bot)
    assert (code, answer["reason"]) == (403, "Forbidden")
    async with plane.client("") as session, session.get("/metrics") as anonymous:
        assert anonymous.status == 401
    plane.kubectl("create", "clusterrolebinding", "scraper", "--clusterrole=system:monitoring", f"--user={BOT}")
    until(lambda: "apiserver_request_total" in as_token(plane, bot, "get", "--raw", "/metrics"))
    code, text, headers = await ask(plane, "GET", "/metrics", token=bot)
    assert code == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = {family.name for family in text_string_to_metric_families(text)}
    assert {"apiserver_request", "apiserver_cache_list", "process_cpu_seconds"} <= families
    assert "/metrics" in (await ask(plane, "GET", "/", user="admin"))[1]["paths"]


async def test_openid_discovery(plane: Plane) -> None:
    token = plane.kubectl("create", "token", "bot").strip()
    code, found, headers = await ask(plane, "GET", "/.well-known/openid-configuration", token=token)
    assert (code, found["id_token_signing_alg_values_supported"]) == (200, ["ES256"])
    assert headers["Cache-Control"] == "public, max-age=3600"
    code, keys, headers = await ask(plane, "GET", "/openid/v1/jwks", token=token)
    assert headers["Cache-Control"] == "public, max-age=3600"
    header = json.loads(base64.urlsafe_b64decode(token.split(".")[0] + "=="))
    assert keys["keys"][0]["kid"] == header["kid"]
    assert (await ask(plane, "GET", "/openid/v1/jwks"))[0] == 401
    assert (await ask(plane, "GET", "/openid/v2", user="admin"))[0] == 404


async def test_websockets_of_browsers_carry_tokens_as_a_protocol(plane: Plane) -> None:
    token = plane.kubectl("create", "token", "bot").strip()
    encoded = f"{TOKEN_PROTOCOL}{base64.urlsafe_b64encode(token.encode()).decode().rstrip('=')}"
    until(lambda: "Forbidden" not in as_token(plane, token, "get", "pods"))
    async with plane.client("") as browser:
        async with browser.ws_connect(f"{PODS}?watch=1", protocols=(encoded, "json")) as socket:
            assert socket.protocol == "json"
        for bad in ((encoded,), (encoded, encoded, "json"), (f"{TOKEN_PROTOCOL}!", "json"), ("json",)):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await browser.ws_connect(f"{PODS}?watch=1", protocols=bad)
            assert refused.value.status == 401


async def test_a_file_of_tokens(plane: Plane) -> None:
    async def code(path: str) -> int:
        return (await ask(plane, "GET", path, token="s3cret"))[0]

    path = plane.settings.layout.pki / "tokens.csv"
    path.write_text('s3cret,erin,1,"system:masters"\n')
    path.chmod(0o644)
    assert (await code("/api/v1/nodes")) == 401
    assert "must be 0600" in (plane.root / "apiserver-0.log").read_text()
    path.chmod(0o600)
    assert (await code("/api/v1/nodes")) == 200
    path.unlink()
    assert (await code("/api/v1/nodes")) == 401


def test_writes_are_noted_without_what_they_wrote(plane: Plane) -> None:
    log = plane.settings.layout.logs / "audit.log"
    plane.kubectl(
        "create", "secret", "generic", "quiet", "--from-literal=k=hush-hush", "--as=admin2", "--as-group=system:masters"
    )
    plane.kubectl("patch", "secret", "quiet", "--type=merge", "-p", '{"stringData":{"l":"hush-hush"}}')
    plane.kubectl("create", "configmap", "no", "--as=nobody", check=False)
    plane.kubectl("delete", "secret", "quiet")
    token = plane.kubectl("create", "token", "bot").strip()
    claims = json.loads(base64.urlsafe_b64decode(f"{token.split('.')[1]}=="))
    until(lambda: claims["jti"] in log.read_text().rpartition("\n")[0])
    text = log.read_text()
    assert "hush" not in text
    assert base64.b64encode(b"hush-hush").decode() not in text
    assert token.split(".")[2] not in text
    found = [json.loads(line) for line in text[: text.rindex("\n")].splitlines()]  # the last may be half written
    issued = {"authentication.kubernetes.io/issued-credential-id": f"JTI={claims['jti']}"}
    assert any(issued.items() <= line.get("annotations", {}).items() for line in found)
    made = next(line for line in found if line["objectRef"].get("resource") == "secrets" and "impersonatedUser" in line)
    assert (made["user"]["username"], made["impersonatedUser"]["username"]) == ("admin", "admin2")
    assert (made["responseStatus"], made["objectRef"]["name"]) == ({"code": 201}, "quiet")
    assert made["annotations"]["authorization.k8s.io/decision"] == "allow"
    assert "authorization.k8s.io/reason" in made["annotations"]
    denied = next(line for line in found if line.get("impersonatedUser", {}).get("username") == "nobody")
    assert denied["responseStatus"]["reason"] == "Forbidden"
    assert denied["responseStatus"]["message"].startswith('configmaps is forbidden: User "nobody" cannot create')
    assert denied["annotations"]["authorization.k8s.io/decision"] == "forbid"
    assert {"create", "patch", "delete"} <= {line["verb"] for line in found}
    assert not {"get", "list", "watch"} & {line["verb"] for line in found}


@pytest.mark.parametrize("chosen", ["", "mine", "x" * 300])
async def test_response_to_a_write_names_its_line_of_the_audit_log(plane: Plane, chosen: str) -> None:
    log = plane.settings.layout.logs / "audit.log"
    async with plane.client() as session:
        async with session.post("/api/v1/nodes", json={}, headers={"Audit-ID": chosen} if chosen else {}) as answer:
            audit_id = answer.headers["Audit-ID"]
        async with session.get("/api/v1/nodes") as read:
            assert read.headers["Cache-Control"] == "no-cache, private"
    assert (audit_id == chosen) == (chosen == "mine")
    until(lambda: f'"auditID":"{audit_id}"' in log.read_text())


def test_a_restarted_server_keeps_rights_and_tokens(plane: Plane) -> None:
    token = plane.kubectl("create", "token", "bot").strip()
    before = plane.kubectl(
        "get", "clusterroles,clusterrolebindings", "-o", "jsonpath={.items[*].metadata.resourceVersion}"
    )
    plane.kill("apiserver-0")
    plane.spawn("apiserver-0")
    plane.wait_ready()
    assert "No resources" in as_token(plane, token, "get", "pods", "-l", "none=such")
    after = plane.kubectl(
        "get", "clusterroles,clusterrolebindings", "-o", "jsonpath={.items[*].metadata.resourceVersion}"
    )
    assert before == after


def test_a_new_serving_certificate_needs_no_restart(plane: Plane) -> None:
    pki = plane.root / "pki"
    held = {path: path.read_bytes() for path in (pki / "apiserver.crt", pki / "apiserver.key", pki / "ca.crt")}
    other = Authority(plane.root / "other", "other-ca")
    other.issue("apiserver", "another")
    address = ("127.0.0.1", plane.port)
    try:
        for name in ("apiserver.crt", "apiserver.key"):
            (pki / name).write_bytes((plane.root / "other" / name).read_bytes())
        assert ssl.get_server_certificate(address) == (pki / "apiserver.crt").read_text()
        (pki / "ca.crt").write_bytes(held[pki / "ca.crt"] + (plane.root / "other" / "ca.crt").read_bytes())
        other.issue("admin", "admin", "system:masters")
        context = ssl.create_default_context(cafile=str(plane.root / "other" / "ca.crt"))
        context.load_cert_chain(plane.root / "other" / "admin.crt", plane.root / "other" / "admin.key")
        with urllib.request.urlopen(f"{plane.url}/api/v1/nodes", context=context, timeout=60) as answer:
            assert answer.status == 200, "a client of the new CA is let in"
        assert "default" in plane.kubectl("get", "namespaces"), "and so is one of the old, while both are in the file"
    finally:
        for path, content in held.items():
            path.write_bytes(content)


def test_user_of_a_certificate_has_its_fingerprint(plane: Plane) -> None:
    der = ssl.PEM_cert_to_DER_cert((plane.root / "pki" / "admin.crt").read_text())
    review = json.loads(plane.kubectl("auth", "whoami", "-o", "json"))
    credential = [f"X509SHA256={hashlib.sha256(der).hexdigest()}"]
    assert review["status"]["userInfo"]["extra"] == {"authentication.kubernetes.io/credential-id": credential}

"""Bearer tokens: what they say, when they stop proving it, and what a file of them must look like."""

import base64
import errno
import hmac
import json
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.api.errors import Invalid, TooManyRequests, Unauthorized
from actors.apiserver.api.request.user import ANONYMOUS, User
from actors.apiserver.http.authentication import token_authority
from actors.apiserver.http.authentication.authenticator import bearer, user_of
from actors.apiserver.http.authentication.signing import (
    BadToken,
    Keys,
    NoSigningKey,
    SigningKey,
    decode_token,
    encode_token,
    load_key,
    load_keys,
)
from actors.apiserver.http.authentication.token_authority import AuthorityOptions, TokenAuthority, TokenFile
from actors.apiserver.http.authentication.token_claims import (
    ISSUER,
    TERMINATING_S,
    Grant,
    check_times,
    make_claims,
    references_of,
    user_of_claims,
)
from actors.apiserver.http.endpoints.token_requests import read_request
from protocols.kube.meta import Object
from protocols.kube.times import format_time
from tests.unit.apiserver.test_apiserver_bootstrap_tokens import secret

ACCOUNT: Object = {"metadata": {"name": "bot", "namespace": "ns", "uid": "u-bot"}}
POD: Object = {"metadata": {"name": "p", "namespace": "ns", "uid": "u-p"}, "spec": {"nodeName": "n1"}}
NODE: Object = {"metadata": {"name": "n1", "uid": "u-n1"}}


def pem(kind: str) -> bytes:
    made = ec.generate_private_key(ec.SECP256R1()) if kind == "ES256" else rsa.generate_private_key(65537, 2048)
    form = serialization.PrivateFormat.PKCS8
    return made.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def encode_segment(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


KEYS = {kind: SigningKey(pem(kind), Path("sa.key")) for kind in ("ES256", "RS256")}
KEY = KEYS["ES256"]
OURS = Keys(KEY)


def claims(**changes: Any) -> dict[str, Any]:
    grant = Grant(ACCOUNT, (ISSUER,), 3600, "Pod", POD, NODE)
    return {**make_claims(grant, time.time()), **changes}


@pytest.mark.parametrize("kind", KEYS)
def test_a_token_proves_what_it_says(kind: str) -> None:
    key = KEYS[kind]
    token = encode_token(key, claims())
    found = decode_token(Keys(key), token)
    check_times(found, time.time())
    user = user_of_claims(found)
    assert (user.name, user.uid) == ("system:serviceaccount:ns:bot", "u-bot")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    assert dict(user.extra)["authentication.kubernetes.io/pod-name"] == ("p",)
    assert [(each.resource, each.name) for each in references_of(found)] == [("serviceaccounts", "bot"), ("pods", "p")]
    assert key.public.jwk()["kid"] == key.public.kid
    assert key.public.jwk()["alg"] == kind


@given(st.integers(min_value=0), st.integers(min_value=1, max_value=255))
def test_one_changed_byte_proves_nothing(place: int, change: int) -> None:
    token = encode_token(KEY, claims()).encode()
    place %= len(token)
    broken = token[:place] + bytes([token[place] ^ change]) + token[place + 1 :]
    with pytest.raises(BadToken):
        decode_token(OURS, broken.decode("latin-1"))


def test_letters_of_plain_base64_are_not_those_of_tokens() -> None:
    token = encode_token(KEY, {"sub": "?>?>?>"})
    assert "-" in token or "_" in token
    with pytest.raises(BadToken, match="malformed"):
        decode_token(OURS, token.replace("-", "+").replace("_", "/"))


def test_a_token_has_upstreams_header() -> None:
    header = encode_token(KEY, claims()).partition(".")[0]
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "ES256", "kid": KEY.public.kid}


@pytest.mark.parametrize(("kind", "members"), [("ES256", {"crv", "x", "y"}), ("RS256", {"n", "e"})])
def test_a_published_key_holds_its_public_half_alone(kind: str, members: set[str]) -> None:
    assert KEYS[kind].public.jwk().keys() == {"use", "kid", "alg", "kty", *members}


@pytest.mark.parametrize("kind", KEYS)
def test_a_public_key_is_no_shared_secret(kind: str) -> None:
    key = KEYS[kind].public
    secret = key.key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    message = ".".join(encode_segment(json.dumps(part).encode()) for part in ({"alg": "HS256"}, claims()))
    signature = encode_segment(hmac.digest(secret, message.encode(), "sha256"))
    with pytest.raises(BadToken, match="not signed with our key"):
        decode_token(Keys(KEYS[kind]), f"{message}.{signature}")


@pytest.mark.parametrize("header", [{"crit": ["x"], "x": 1}, {"b64": False, "crit": ["b64"]}, {"kid": 7}])
def test_unknown_extensions_are_refused(header: dict[str, Any]) -> None:
    message = ".".join(encode_segment(json.dumps(part).encode()) for part in ({"alg": "ES256", **header}, claims()))
    with pytest.raises(BadToken, match="malformed"):
        decode_token(OURS, f"{message}.{encode_segment(bytes(64))}")


def test_forged_headers_prove_nothing() -> None:
    body = encode_segment(b'{"sub":"system:serviceaccount:ns:bot"}')
    for header in (b'{"alg":"none"}', b'{"alg":"HS256"}', b'{"alg":"ES256","kid":"other"}', b"[]", b"{", b"\xff"):
        for signature in ("", encode_segment(b"x" * 64), encode_segment(b"\0" * 64)):
            with pytest.raises(BadToken):
                decode_token(OURS, f"{encode_segment(header)}.{body}.{signature}")
    for token in ("..", "a.b.c", "a.b", "é.é.é", "x" * 20000, ".".join(["e30"] * 3)):
        with pytest.raises(BadToken):
            decode_token(OURS, token)
    with pytest.raises(BadToken):
        decode_token(Keys(KEYS["RS256"]), encode_token(KEY, claims()))


@pytest.mark.parametrize(
    "changes",
    [{"exp": 1}, {"nbf": 2**40}, {"exp": None}, {"exp": "soon"}, {"nbf": True}, {"iss": "https://elsewhere"}],
)
def test_times_and_issuer(changes: dict[str, Any]) -> None:
    with pytest.raises(BadToken):
        check_times(claims(**changes), time.time())


async def _known() -> None:
    """The replica of secrets is filled."""


def authority(
    tmp_path: Path,
    shown: dict[str, Object],
    stored: dict[str, Object] | None = None,
    known: Callable[[], Awaitable[None]] = _known,
) -> TokenAuthority:
    if not (tmp_path / "sa.key").exists():
        (tmp_path / "sa.key").write_bytes(pem("ES256"))

    async def fresh(resource: str, _namespace: str, name: str) -> Object | None:
        return (shown if stored is None else stored).get(f"{resource}/{name}")

    return TokenAuthority(
        AuthorityOptions(
            tmp_path / "sa.key",
            tmp_path / "tokens.csv",
            lambda kind, _space, name: shown.get(f"{kind}/{name}"),
            fresh,
            known,
        )
    )


async def test_static_tokens_are_for_the_api_server_only(tmp_path: Path) -> None:
    """Another server that asks for its own audience must not take them, since they name none."""
    made, path = authority(tmp_path, {}), tmp_path / "tokens.csv"
    path.touch(0o600)
    path.write_text("secret,alice,1\n")
    assert (await made.prove("secret", ("vault", ISSUER))).audiences == (ISSUER,)
    for token in ("secret", "abcdef.0123456789abcdef"):
        with pytest.raises(BadToken, match="for the API server only"):
            await made.prove(token, ("vault",))


async def test_bootstrap_token_before_its_secret_is_known_gets_429_and_not_401(tmp_path: Path) -> None:
    shown: dict[str, Object] = {}

    async def known() -> None:
        if not shown:
            raise TooManyRequests("storage is (re)initializing")

    made, header = authority(tmp_path, shown, known=known), "Bearer abcdef.0123456789abcdef"
    with pytest.raises(TooManyRequests):
        await bearer(header, made.prove)
    shown["secrets/bootstrap-token-abcdef"] = secret()
    assert (await bearer(header, made.prove)).user.name == "system:bootstrap:abcdef"


async def test_tokens_end_with_what_they_are_bound_to(tmp_path: Path) -> None:
    shown = {"serviceaccounts/bot": ACCOUNT, "pods/p": POD}
    made = authority(tmp_path, shown)
    token, ends = await made.issue(Grant(ACCOUNT, (ISSUER, "vault"), 600, "Pod", POD, NODE))
    assert 590 < ends - time.time() < 601
    assert (await made.prove(token)).user.name == "system:serviceaccount:ns:bot"
    assert (await made.prove(token, ("vault", "else"))).audiences == ("vault",)
    with pytest.raises(BadToken, match="audiences"):
        await made.prove(token, ("else",))
    for gone in ("pods/p", "serviceaccounts/bot"):
        kept = shown.pop(gone)
        with pytest.raises(BadToken, match="no longer exists"):
            await made.prove(token)
        shown[gone] = {"metadata": {**kept["metadata"], "uid": "another"}}
        with pytest.raises(BadToken, match="no longer exists"):
            await made.prove(token)
        shown[gone] = kept
    late = authority(tmp_path, {}, {"serviceaccounts/bot": ACCOUNT, "pods/p": POD})  # a replica that lags
    assert (await late.prove(token)).user.uid == "u-bot"


@pytest.mark.parametrize("kept", ["pods/p", "serviceaccounts/bot"])
async def test_token_ends_a_minute_after_the_deletion_of_an_object_that_a_finalizer_keeps(
    tmp_path: Path, kept: str
) -> None:
    shown = {"serviceaccounts/bot": ACCOUNT, "pods/p": POD}
    made = authority(tmp_path, shown)
    token, _ = await made.issue(Grant(ACCOUNT, (ISSUER,), 600, "Pod", POD, NODE))

    def delete(ago: float) -> None:
        deleted = {"deletionTimestamp": format_time(time.time() - ago)}
        shown[kept] = {**shown[kept], "metadata": {**shown[kept]["metadata"], **deleted}}

    delete(0)
    assert (await made.prove(token)).user.uid == "u-bot"
    delete(TERMINATING_S + 2)
    with pytest.raises(BadToken, match="no longer exists"):
        await made.prove(token)


def test_a_plane_without_its_key_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoSigningKey, match=r"sa\.key"):
        load_key(tmp_path / "sa.key")
    for content in (b"", b"no key", KEY.public.kid.encode()):
        (tmp_path / "sa.key").write_bytes(content)
        with pytest.raises(NoSigningKey, match="delete it"):
            load_key(tmp_path / "sa.key")


def public_pem(private: bytes) -> bytes:
    key = serialization.load_pem_private_key(private, password=None).public_key()
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


async def test_a_new_key_signs_at_once_and_old_tokens_stay_good_while_the_old_one_is_believed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    private, public = tmp_path / "sa.key", tmp_path / "sa.pub"
    keys = {name: pem(kind) for name, kind in (("first", "ES256"), ("second", "RS256"), ("third", "ES256"))}
    grant = Grant(ACCOUNT, (ISSUER,), 3600)

    made = authority(tmp_path, {"serviceaccounts/bot": ACCOUNT})
    private.write_bytes(keys["first"])
    old, _ = await made.issue(grant)
    public.write_bytes(public_pem(keys["first"]) + b"\nof today:\n" + public_pem(keys["second"]))
    private.write_bytes(keys["second"])
    new, _ = await made.issue(grant)
    believed = (await made.keys()).believed
    assert [key.algorithm for key in believed.values()] == ["RS256", "ES256"]
    for token in (old, new):
        assert (await made.prove(token)).user.name == "system:serviceaccount:ns:bot"
    public.write_bytes(b"half written")
    assert (await made.prove(old)).user.uid == "u-bot", "what cannot be used changes nothing"
    assert "keys of service account tokens" in caplog.messages[-1]
    public.write_bytes(keys["third"])  # a private key counts by its public half, as upstream's does
    assert (await made.prove(new)).user.uid == "u-bot"
    with pytest.raises(BadToken, match="not signed with our key"):
        await made.prove(old)


@pytest.mark.parametrize("content", [b"", b"no key", b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"])
def test_believed_keys_that_are_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "sa.key").write_bytes(pem("ES256"))
    (tmp_path / "sa.pub").write_bytes(content)
    with pytest.raises(NoSigningKey, match=r"sa\.pub cannot be used"):
        load_keys(tmp_path / "sa.key")


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.write_text(text)
    path.chmod(mode)


def test_tokens_of_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "tokens.csv"
    tokens = TokenFile(path)
    assert tokens.find("s3cret") is None
    write(path, '# people\ns3cret,ann,7,"dev,ops"\n\nother,bob,8\n')
    assert tokens.find("s3cret") == User("ann", ("dev", "ops", "system:authenticated"), "7")
    assert tokens.find("other") == User("bob", ("system:authenticated",), "8")
    assert tokens.find("") is None
    for text, mode, why in (
        ("a,ann,1\n", 0o640, "0600"),
        ("a,ann\n", 0o600, "line 1"),
        ("\n,ann,1\n", 0o600, "line 2"),
        (f"{'x' * 200_000},ann,1\n", 0o600, "field larger than field limit"),
    ):
        write(path, text, mode)
        os.utime(path, ns=(0, time.time_ns()))
        assert tokens.find("a") is None
        assert why in caplog.messages[-1]
        assert tokens.find("s3cret") is None
    path.unlink()
    os.mkfifo(path, 0o600)
    assert tokens.find("a") is None
    assert "no regular file" in caplog.messages[-1]
    path.unlink()
    assert tokens.find("other") is None


async def test_a_bearer_token_is_never_ignored() -> None:
    async def prove(token: str) -> User:
        if token == "good":
            return User("ann")
        raise BadToken("no") if token == "bad" else NoSigningKey("no key")

    assert user_of(None) == ANONYMOUS
    assert await bearer("Bearer good", prove) == User("ann")
    assert await bearer("bearer  good ", prove) == User("ann")
    for header in ("Bearer bad", "Bearer keyless", "Bearer ", "Bearer", "Basic Z29vZA==", "good"):
        with pytest.raises(Unauthorized):
            await bearer(header, prove)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"expirationSeconds": 599}, "spec.expirationSeconds"),
        ({"expirationSeconds": 2**32 + 1}, "spec.expirationSeconds"),
        ({"expirationSeconds": "1h"}, "spec.expirationSeconds"),
        ({"expirationSeconds": True}, "spec.expirationSeconds"),
        ({"audiences": "all"}, "spec.audiences"),
        ({"audiences": [""]}, "spec.audiences"),
        ({"boundObjectRef": 1}, "spec.boundObjectRef"),
        ({"boundObjectRef": {"kind": "ConfigMap", "name": "x"}}, "spec.boundObjectRef.kind"),
        ({"boundObjectRef": {"kind": "Pod"}}, "spec.boundObjectRef.name"),
    ],
)
def test_token_requests_that_are_refused(spec: Object, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_request({"spec": spec})
    assert field in str(caught.value)


def test_a_token_request_has_defaults() -> None:
    body: Object = {}
    asked = read_request(body)
    assert (asked.audiences, asked.seconds, asked.kind) == ((ISSUER,), 3600, "")
    assert body["spec"] == {"audiences": [ISSUER], "expirationSeconds": 3600}


def test_token_file_is_read_again_after_a_lack_of_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokens.csv"
    write(path, "secret,ann,1\n")
    tokens = TokenFile(path)

    def fail(path: Path, state: os.stat_result) -> dict[bytes, User]:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(token_authority, "read_tokens", fail)
        assert tokens.find("secret") is None
    assert tokens.find("secret") is not None

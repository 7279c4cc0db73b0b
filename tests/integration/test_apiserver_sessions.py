"""No TLS session is resumed, and no connection or watch outlives the credential it was opened with."""

import shutil
import socket
import ssl
import time
from pathlib import Path

import pytest

from actors.apiserver.http.authentication.signing import encode_token, load_keys
from actors.apiserver.http.authentication.token_claims import Grant, make_claims
from tests.support.apiserver_plane import Plane
from tests.support.authority import Authority
from tests.support.tls_words import CONFIGMAPS

WATCH = CONFIGMAPS + b"?watch=true&resourceVersion=0"
SHORT_S = 6.0
"""Lifetime of the credentials here."""
PATIENCE_S = 60.0
LAST_CHUNK = b"0\r\n\r\n"


class Client:
    """One connection; `headers` go with each request."""

    def __init__(self, plane: Plane, tls: ssl.SSLContext, *headers: bytes) -> None:
        raw = socket.create_connection(("127.0.0.1", plane.port), timeout=PATIENCE_S)
        self.tls = tls.wrap_socket(raw, server_hostname="127.0.0.1")
        self._headers = b"".join(header + b"\r\n" for header in headers)

    def ask(self, path: bytes) -> None:
        self.tls.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n" + self._headers + b"\r\n")

    def status(self) -> bytes:
        """The status of the answer to the request that was asked, its first bytes read."""
        return self.tls.recv(65536).split(b" ")[1]

    def rest(self) -> bytes:
        """All until the server closes."""
        found = b""
        while part := self.tls.recv(65536):
            found += part
        return found

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.tls.close()


def trusting(plane: Plane, authority: Path | None = None) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority or plane.settings.layout.ca_cert))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("tickets", [True, False])
def test_session_of_an_earlier_connection_is_not_resumed(plane: Plane, version: ssl.TLSVersion, tickets: bool) -> None:
    context = plane.tls()
    context.minimum_version = context.maximum_version = version
    if not tickets:
        context.options |= ssl.OP_NO_TICKET
    with Client(plane, context) as first:
        first.ask(b"/version")
        assert first.status() == b"200"
        session = first.tls.session
    raw = socket.create_connection(("127.0.0.1", plane.port), timeout=PATIENCE_S)
    with context.wrap_socket(raw, server_hostname="127.0.0.1", session=session) as second:
        assert second.session_reused is False


def test_connection_and_watch_with_expired_certificate_end(plane: Plane) -> None:
    began = time.monotonic()
    plane.authority.issue("brief", "admin", "system:masters", seconds=SHORT_S)
    tls = plane.tls("brief")
    with Client(plane, tls) as kept, Client(plane, tls) as watching:
        watching.ask(WATCH)
        assert watching.status() == b"200"
        kept.ask(CONFIGMAPS)
        assert kept.status() == b"200"
        assert watching.rest().endswith(LAST_CHUNK), "the watch ends cleanly"
        assert time.monotonic() - began >= SHORT_S - 1.5
        kept.ask(CONFIGMAPS)
        answer = kept.rest()
        assert answer.startswith(b"HTTP/1.1 401 ")
        assert b"Connection: close\r\n" in answer
        assert b'"reason":"Unauthorized"' in answer


def test_watch_with_expired_token_ends_and_the_connection_is_refused(plane: Plane) -> None:
    began = time.monotonic()
    with Client(plane, trusting(plane), b"Authorization: Bearer " + brief_token(plane)) as watching:
        watching.ask(b"/api/v1/namespaces/default/configmaps?watch=true&resourceVersion=0")
        assert watching.status() == b"200"
        assert watching.rest().endswith(LAST_CHUNK)
        assert time.monotonic() - began >= SHORT_S - 1.5


def brief_token(plane: Plane) -> bytes:
    """Of a service account that may read config maps."""
    plane.kubectl("create", "serviceaccount", "brief")
    plane.kubectl("create", "clusterrolebinding", "brief", "--clusterrole=view", "--serviceaccount=default:brief")
    uid = plane.kubectl("get", "serviceaccount", "brief", "-o", "jsonpath={.metadata.uid}")
    account = {"metadata": {"namespace": "default", "name": "brief", "uid": uid}}
    grant = Grant(account, ("https://kubernetes.default.svc.cluster.local",), int(SHORT_S))
    keys = load_keys(plane.settings.layout.pki / "sa.key")
    return encode_token(keys.signing, make_claims(grant, time.time())).encode()


def test_connections_verified_by_a_replaced_ca_end(plane: Plane, tmp_path: Path) -> None:
    """An idle connection is closed, a watch ends; the old certificate gets no new connection."""
    ca = plane.settings.layout.ca_cert
    shutil.copyfile(ca, tmp_path / "old.crt")
    Authority(tmp_path / "new", "new-ca")
    tls = plane.tls()
    with Client(plane, tls) as idle, Client(plane, tls) as watching, Client(plane, trusting(plane)) as nobody:
        idle.ask(CONFIGMAPS)
        assert idle.status() == b"200"
        watching.ask(WATCH)
        assert watching.status() == b"200"
        nobody.ask(b"/version")
        assert nobody.status() == b"200"
        try:
            shutil.copyfile(tmp_path / "new" / "ca.crt", ca)
            assert watching.rest().endswith(LAST_CHUNK)
            assert idle.rest() == b""
            nobody.ask(b"/version")
            assert nobody.status() == b"200", "a connection without a certificate stays"
            assert told(plane, tls) == b""
        finally:
            shutil.copyfile(tmp_path / "old.crt", ca)


def told(plane: Plane, tls: ssl.SSLContext) -> bytes:
    """What a new connection is answered; nothing where its handshake fails."""
    try:
        with Client(plane, tls) as client:
            client.ask(CONFIGMAPS)
            return client.tls.recv(65536)
    except (ssl.SSLError, ConnectionError):
        return b""

"""Check before a node starts that the API accepts it and that its name is free.

Problems that may pass are warnings, others are errors.
"""

import http.client
import json
import ssl
import tempfile
import time
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from protocols.kube.jsons import read_json
from protocols.messages.podworker import INSTANCE
from protocols.process.tls import client_context
from supervisor.base.errors import SupervisorError
from supervisor.pki.node_config import MEND, USER, NodeConfig, NodeConfigInvalid

TIMEOUT_S = 3.0
LEASE_S = 40.0
"""Time after its last renewal in which a lease counts."""
EXPIRES_SOON_S = 60 * 86400.0
UNTRUSTED = (18, 19, 20, 21)
"""OpenSSL's error codes for an unknown signer."""
MISNAMED = (62, 64)
ENDED = 10
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


class JoinRejected(SupervisorError, http=403, grpc="PERMISSION_DENIED"):
    """Raised when the API rejects this node: another plane, another user, or another identity."""


class NameInUse(JoinRejected, http=409, grpc="FAILED_PRECONDITION"):
    """Raised when another node of this name is alive."""


class _ApiAnswer(NamedTuple):
    code: int
    body: dict[str, Any]
    now: datetime
    """Time by the clock of the API."""


def check(what: NodeConfig, own_id: str) -> str:
    """Return a warning, or "". Raises NodeConfigInvalid, JoinRejected, NameInUse."""
    _check_dates(what)
    try:
        with tempfile.TemporaryDirectory(prefix="nodeplane-") as directory:
            return _ask(what, own_id, _tls(what, Path(directory))) or _outdated(what)
    except ssl.SSLCertVerificationError as error:
        raise JoinRejected(_distrust(what, error)) from None
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError) as error:  # a load balancer, for one, whose servers are away
        return _away(what, error)
    except ssl.SSLError as error:
        raise JoinRejected(
            f"the API at {what.server} refuses the certificate of node {what.node} ({_text(error)}); {MEND}"
        ) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        return _away(what, error)
    except (AttributeError, KeyError, TypeError):  # a field of another type, or a time without a zone
        return f"the API at {what.server} does not answer as Kubernetes does; the node waits for it"


def _away(what: NodeConfig, error: Exception) -> str:
    return f"the API at {what.server} does not answer ({_text(error)}); the node waits for it"


def _check_dates(what: NodeConfig) -> None:
    if what.not_after <= time.time():
        ended = datetime.fromtimestamp(what.not_after, UTC).date()
        raise NodeConfigInvalid(
            f"the certificate of node {what.node} ended on {ended}; {MEND.replace('NAME', what.node)}"
        )


def _outdated(what: NodeConfig) -> str:
    if what.serving_name:
        return ""
    return f"the file of node {what.node} is of an earlier version: its certificate also serves for localhost; {MEND}"


def _ask(what: NodeConfig, own_id: str, tls: ssl.SSLContext) -> str:
    review = _call(what, tls, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", REVIEW)
    user = str((((review.body.get("status") or {}).get("userInfo")) or {}).get("username") or "")
    if review.code in (401, 403) or (user and user != USER + what.node):
        raise JoinRejected(f"the API at {what.server} knows this node as {user or 'nobody'!r}; {MEND}")
    if review.code >= 500:
        return f"the API at {what.server} is not ready ({review.code}); the node waits for it"
    node = _call(what, tls, "GET", f"/api/v1/nodes/{what.node}")
    lease = _call(what, tls, "GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{what.node}")
    taken = in_use(node.body, lease.body, own_id, lease.now)
    if taken:
        raise NameInUse(f"node name {what.node!r} is taken: {taken}")
    left = what.not_after - time.time()
    return f"the node's certificate ends in {left / 86400:.0f} days; {MEND}" if left < EXPIRES_SOON_S else ""


def in_use(node: dict[str, Any], lease: dict[str, Any], own_id: str, now: datetime) -> str:
    """Return which other instance has the name, by a lease that was renewed a moment ago, or ""."""
    metadata, status = node.get("metadata") or {}, node.get("status") or {}
    theirs = (metadata.get("annotations") or {}).get(INSTANCE, "")
    renewed = _time((lease.get("spec") or {}).get("renewTime"))
    if renewed is None or not metadata.get("uid") or (theirs and theirs == own_id):
        return ""
    age = (now - renewed).total_seconds()
    if age >= LEASE_S:
        return ""
    where = next((a["address"] for a in status.get("addresses") or () if a.get("type") == "InternalIP"), "?")
    wait = f"if that one has just ended, wait {LEASE_S - max(0.0, age):.0f} s"
    return f"a node at {where} renewed its lease {max(0.0, age):.0f} s ago; use another name, or {wait}"


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None


def _call(what: NodeConfig, tls: ssl.SSLContext, method: str, path: str, body: Any = None) -> _ApiAnswer:
    parts = urlsplit(what.server)
    connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=TIMEOUT_S, context=tls)
    try:
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        decoded = read_json(answer.read(1 << 20) or b"{}")
        now = parsedate_to_datetime(answer.headers["Date"]) if answer.headers["Date"] else datetime.now(UTC)
        return _ApiAnswer(answer.status, decoded if isinstance(decoded, dict) and answer.status < 400 else {}, now)
    finally:
        connection.close()


def _tls(what: NodeConfig, directory: Path) -> ssl.SSLContext:
    """Return a TLS context; `directory` is for certificates, which it loads only from files."""
    pair = directory / "client.pem"
    pair.touch(mode=0o600)
    pair.write_bytes(what.client.certificate + b"\n" + what.client.key)
    try:
        context = client_context(what.ca)
        context.load_cert_chain(pair)
    except (ssl.SSLError, ValueError) as error:
        raise NodeConfigInvalid(
            f"the certificates of node {what.node} cannot be used ({_text(error)}); {MEND}"
        ) from None
    return context


def _distrust(what: NodeConfig, error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in UNTRUSTED:
        return f"the API at {what.server} is not the one this node's file was made for: another CA signed it; {MEND}"
    if error.verify_code == ENDED:
        return f"the certificate of the API at {what.server} has ended; start that plane again, which renews it"
    if error.verify_code in MISNAMED:
        host = urlsplit(what.server).hostname
        return f"the API's certificate does not name {host}; start that plane with --api-names {host}"
    return f"the certificate of the API at {what.server} is not good: {error.verify_message}"


def _text(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer in {TIMEOUT_S:g} s"
    if isinstance(error, ssl.SSLError):
        return str(error.reason or error).lower().replace("_", " ")
    return (error.strerror if isinstance(error, OSError) else "") or str(error) or type(error).__name__

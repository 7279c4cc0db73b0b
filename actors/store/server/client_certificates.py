"""TLS on loopback: the server's certificates, and checks of client certificates beyond gRPC's.

- Certificate files are checked here first, because gRPC reports only that it cannot listen.
- Replaced files serve new connections without a restart; while they do not match each other, the last good ones do.
- gRPC cannot turn off session tickets, and a resumed session does not verify the client's certificate again. So calls
  on resumed sessions are rejected. etcd clients in Go and Python, and ours, keep no sessions.
- A stream ends when its client's certificate expires.
"""

import asyncio
import functools
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias, cast

import grpc

from actors.store.model.errors import ClientNotAuthenticated, StoreUnusable
from actors.store.model.options import StoreOptions
from protocols.process.tls import Renewed

REMEDY = "remove the file, and `nodeplane up` makes a new one"
Pair = grpc.ServerCertificateConfiguration


def server_credentials(options: StoreOptions) -> grpc.ServerCredentials | None:
    """Return the credentials; None without certificate files, which means no TCP.

    Raises:
        StoreUnusable: The files exist but cannot be used.
    """
    files = (options.ca, options.cert, options.key)
    if not all(path.exists() for path in files):
        return None
    pairs = _CertificatePairs(options, files)
    fresh = cast(Callable[[], Pair], pairs.fresh)  # gRPC documents None as a result; its stubs do not have it
    return grpc.dynamic_ssl_server_credentials(pairs.given, fresh, require_client_authentication=True)


class _CertificatePairs:
    """The current certificates; gRPC calls `fresh` from its own threads before each handshake."""

    def __init__(self, options: StoreOptions, files: tuple[Path, ...]) -> None:
        self._pairs = Renewed(files, lambda: _pair(options))
        self.given = self._pairs.now()

    def fresh(self) -> Pair | None:
        """Return changed certificates; None while nothing changed, so that gRPC keeps its context."""
        pair = self._pairs.now()
        if pair is self.given:
            return None
        self.given = pair
        return pair


def _pair(options: StoreOptions) -> Pair:
    _check(options)
    pair = (_read(options.key), _read(options.cert))
    return grpc.ssl_server_certificate_configuration([pair], _read(options.ca))


def _check(options: StoreOptions) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_verify_locations(options.ca)
    except (OSError, ssl.SSLError) as error:
        raise _unusable(f"the CA certificate {options.ca} cannot be used", error) from None
    try:
        context.load_cert_chain(options.cert, options.key)
    except (OSError, ssl.SSLError) as error:
        text = f"the store's certificate {options.cert} cannot be used with its key {options.key}"
        raise _unusable(text, error) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unusable(f"{path} cannot be read", error) from None


def _unusable(what: str, error: OSError) -> StoreUnusable:
    reason = str(getattr(error, "reason", "") or error.strerror or error)
    reason = "it is not PEM" if "PEM" in reason else reason.replace("_", " ").lower()
    return StoreUnusable(f"{what}: {reason}; {REMEDY}")


Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
SESSION, CERTIFICATE = "ssl_session_reused", "x509_pem_cert"
Streaming = Callable[[Any, Context], Awaitable[None]]
Generating = Callable[[Any, Context], AsyncIterator[Any]]


def certificate_seconds_left(context: Context, now: float) -> float | None:
    """Return the seconds for which the client's certificate is still valid; None on the unix socket.

    Raises:
        ClientNotAuthenticated: The certificate has expired or the TLS session was resumed.
    """
    proof = context.auth_context()
    certificate = proof.get(CERTIFICATE)
    if not certificate:
        return None
    if b"true" in proof.get(SESSION, ()):
        raise ClientNotAuthenticated("a resumed TLS session proves no certificate: connect without one")
    left = _expiry(bytes(next(iter(certificate)))) - now
    if left <= 0:
        raise ClientNotAuthenticated("the client certificate has expired: renew it and connect again")
    return left


@functools.lru_cache(maxsize=64)
def _expiry(pem: bytes) -> float:
    from cryptography import x509  # slow import, loaded with the first TCP client

    return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()


def end_with_certificate(method: Streaming) -> Streaming:
    """Wrap a stream so that it ends with ClientNotAuthenticated when its client's certificate expires."""

    async def call(requests: Any, context: Context) -> None:
        try:
            async with asyncio.timeout(certificate_seconds_left(context, time.time())) as limit:
                await method(requests, context)
        except TimeoutError:
            if limit.expired():
                raise ClientNotAuthenticated("the client certificate has expired: renew it and connect again") from None
            raise

    return call


def check_before_each_answer(method: Generating) -> Generating:
    """Wrap a stream so that the client is checked before each answer."""

    async def call(requests: Any, context: Context) -> AsyncIterator[Any]:
        certificate_seconds_left(context, time.time())
        async for answer in method(requests, context):
            certificate_seconds_left(context, time.time())
            yield answer

    return call

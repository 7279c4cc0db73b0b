"""The store's certificates for loopback TCP, looked at before gRPC does, which only says that it cannot listen.

Files that are replaced serve new connections without a restart; while they do not fit together, the last good ones do.
"""

import asyncio
import functools
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias, cast

import grpc

from actors.store.model.errors import ClientNotProven, StoreUnusable
from actors.store.model.options import StoreOptions
from protocols.tls import Renewed

MEND = "remove the file, and `nodeplane up` makes a new one"
Pair = grpc.ServerCertificateConfiguration


def server_credentials(options: StoreOptions) -> grpc.ServerCredentials | None:
    """None where the certificates are not there: then there is no TCP. Raises StoreUnusable."""
    files = (options.ca, options.cert, options.key)
    if not all(path.exists() for path in files):
        return None
    pairs = _Pairs(options, files)
    fresh = cast(Callable[[], Pair], pairs.fresh)  # its stubs know nothing of the None that gRPC's documents promise
    return grpc.dynamic_ssl_server_credentials(pairs.given, fresh, require_client_authentication=True)


class _Pairs:
    """Asked by gRPC from threads of its own, before each handshake."""

    def __init__(self, options: StoreOptions, files: tuple[Path, ...]) -> None:
        self._pairs = Renewed(files, lambda: _pair(options))
        self.given = self._pairs.now()

    def fresh(self) -> Pair | None:
        """None while nothing is new: then gRPC keeps what it made of the last one."""
        pair = self._pairs.now()
        if pair is self.given:
            return None
        self.given = pair
        return pair


def _pair(options: StoreOptions) -> Pair:
    """Raises StoreUnusable."""
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
    return StoreUnusable(f"{what}: {reason}; {MEND}")


Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
SESSION, CERTIFICATE = "ssl_session_reused", "x509_pem_cert"
Streaming = Callable[[Any, Context], Awaitable[None]]
Generating = Callable[[Any, Context], AsyncIterator[Any]]


def seconds_left(context: Context, now: float) -> float | None:
    """Return how long the client's certificate is still valid; None on the unix socket. Raises ClientNotProven."""
    proof = context.auth_context()
    certificate = proof.get(CERTIFICATE)
    if not certificate:
        return None
    if b"true" in proof.get(SESSION, ()):
        raise ClientNotProven("a resumed TLS session proves no certificate: connect without one")
    left = _expiry(bytes(next(iter(certificate)))) - now
    if left <= 0:
        raise ClientNotProven("the client certificate has expired: renew it and connect again")
    return left


@functools.lru_cache(maxsize=64)
def _expiry(pem: bytes) -> float:
    from cryptography import x509  # loaded with the first TCP client

    return x509.load_pem_x509_certificate(pem).not_valid_after_utc.timestamp()


def bounded(method: Streaming) -> Streaming:
    """End a stream with its client's certificate. The call raises ClientNotProven."""

    async def call(requests: Any, context: Context) -> None:
        try:
            async with asyncio.timeout(seconds_left(context, time.time())) as limit:
                await method(requests, context)
        except TimeoutError:
            if limit.expired():
                raise ClientNotProven("the client certificate has expired: renew it and connect again") from None
            raise

    return call


def checked(method: Generating) -> Generating:
    """Check the client before each answer of a stream. The call raises ClientNotProven."""

    async def call(requests: Any, context: Context) -> AsyncIterator[Any]:
        seconds_left(context, time.time())
        async for answer in method(requests, context):
            seconds_left(context, time.time())
            yield answer

    return call

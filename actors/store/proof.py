"""Which TCP clients still prove who they are: no resumed TLS session, no certificate that has expired.

gRPC cannot turn session tickets off, and a resumed session does not verify the client's certificate again; so resumed
sessions are rejected call by call. Go, Python and our own clients of etcd keep no sessions.
"""

import asyncio
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc

from actors.store.errors import ClientNotProven

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

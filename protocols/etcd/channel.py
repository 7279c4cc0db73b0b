"""One channel to one member of a cluster, or to the only one: over HTTP/2 or over the private endpoint."""

import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path

from protocols.etcd.errors import BadEndpoint
from protocols.etcd.options import PRIVATE, SOCKET, EtcdOptions
from protocols.etcd.transport.connection_channel import ConnectionChannel
from protocols.etcd.transport.http2_connection import http2_channel
from protocols.etcd.transport.private_connection import private_channel
from protocols.process.tls import Renewed, client_context

Contexts = Callable[[], ssl.SSLContext]
"""Makes the TLS context of the next connection."""


def open_channel(endpoint: str, options: EtcdOptions, tls: Contexts | None) -> ConnectionChannel:
    """Return a channel that reconnects within half a second. Raises BadEndpoint."""
    if endpoint.startswith(PRIVATE):
        return private_channel(Path(endpoint.removeprefix(PRIVATE)))
    _check(endpoint)
    return http2_channel(endpoint, tls, options.max_message)


def contexts_of(options: EtcdOptions) -> Contexts | None:
    """Return the TLS contexts of the options; None without TLS. Raises BadEndpoint."""
    if options.ca is None:
        return None
    return Renewed((options.ca, options.cert, options.key), partial(context_of, options)).now


def context_of(options: EtcdOptions) -> ssl.SSLContext:
    """Raises BadEndpoint."""
    try:
        context = client_context(options.ca)
        if options.cert is not None and options.key is not None:
            context.load_cert_chain(options.cert, options.key)
    except (OSError, ssl.SSLError) as error:
        raise BadEndpoint(f"cannot use {options.ca} with {options.cert}: {error.strerror or error}") from None
    context.set_alpn_protocols(["h2"])
    return context


def _check(endpoint: str) -> None:
    """Check an endpoint's form; each connection resolves its name. Raises BadEndpoint."""
    if endpoint.startswith(SOCKET):
        return
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdigit():
        raise BadEndpoint(f"store endpoint {endpoint!r} is not host:port or unix:PATH")

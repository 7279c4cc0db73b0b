"""One channel to one member of a cluster, or to the only one: over gRPC's library, or over connections of our own.

The library knows how to tell which members let it connect, so clusters of several are spoken to by it.
"""

import ipaddress
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

import grpc

from protocols.etcd.door import door_channel
from protocols.etcd.errors import BadEndpoint
from protocols.etcd.http2_line import http2_channel
from protocols.etcd.options import DOOR, SOCKET, EtcdOptions
from protocols.tls import Renewed

KEEPALIVE = [
    ("grpc.keepalive_time_ms", 6_000),  # etcd ends connections that ask more often than each 5 s
    ("grpc.keepalive_timeout_ms", 4_000),
    ("grpc.http2.ping_timeout_ms", 4_000),  # another ping may be under way, and keeps the one above from being sent
    ("grpc.http2.max_pings_without_data", 0),  # a watch sends nothing: without this a member that hangs goes unnoticed
]
Credentials = grpc.ChannelCredentials


def open_channel(endpoint: str, options: EtcdOptions, credentials: Credentials | None) -> grpc.aio.Channel:
    """A channel that reconnects within half a second. Raises BadEndpoint."""
    if endpoint.startswith(DOOR):
        return cast(grpc.aio.Channel, door_channel(Path(endpoint.removeprefix(DOOR))))
    if len(options.endpoints) == 1:
        _target(endpoint)
        return cast(grpc.aio.Channel, http2_channel(endpoint, _tls(options), options.max_message))
    arguments: list[tuple[str, str | int]] = [
        ("grpc.max_receive_message_length", options.max_message),
        ("grpc.max_send_message_length", options.max_message),
        ("grpc.initial_reconnect_backoff_ms", 20),
        ("grpc.min_reconnect_backoff_ms", 3000),  # time for one attempt, not between two
        ("grpc.max_reconnect_backoff_ms", 500),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    target = _target(endpoint)
    if endpoint.startswith(SOCKET):
        arguments.append(("grpc.default_authority", "localhost"))
        return grpc.aio.insecure_channel(target, options=arguments)
    arguments += KEEPALIVE
    if credentials is None:
        return grpc.aio.insecure_channel(target, options=arguments)
    return grpc.aio.secure_channel(target, credentials, options=arguments)


def credentials_of(options: EtcdOptions) -> Credentials | None:
    """None = not TLS. Raises BadEndpoint when a file cannot be read."""
    if options.ca is None:
        return None
    files = (options.ca, options.key, options.cert)
    try:
        ca, key, cert = (path.read_bytes() if path else None for path in files)
    except OSError as error:
        raise BadEndpoint(f"cannot read the store's certificate {error.filename}: {error.strerror}") from None
    return grpc.ssl_channel_credentials(ca, key, cert)


def files_of(options: EtcdOptions) -> tuple[Path | None, ...]:
    return options.ca, options.cert, options.key


def _tls(options: EtcdOptions) -> Callable[[], ssl.SSLContext] | None:
    """None = not TLS. Raises BadEndpoint."""
    if options.ca is None:
        return None
    return Renewed(files_of(options), partial(tls_of, options)).now


def tls_of(options: EtcdOptions) -> ssl.SSLContext:
    """Raises BadEndpoint."""
    try:
        context = ssl.create_default_context(cafile=str(options.ca))
        if options.cert is not None and options.key is not None:
            context.load_cert_chain(options.cert, options.key)
    except (OSError, ssl.SSLError) as error:
        raise BadEndpoint(f"cannot use {options.ca} with {options.cert}: {error.strerror or error}") from None
    context.set_alpn_protocols(["h2"])
    return context


def _target(endpoint: str) -> str:
    """Names are resolved by the channel, again whenever it has to connect anew. Raises BadEndpoint."""
    if endpoint.startswith(SOCKET):
        return endpoint
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdigit():
        raise BadEndpoint(f"store endpoint {endpoint!r} is not host:port or unix:PATH")
    try:
        version = ipaddress.ip_address(host.strip("[]")).version
    except ValueError:
        return f"dns:///{endpoint}"
    return f"ipv{version}:{endpoint}"

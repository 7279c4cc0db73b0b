"""One gRPC channel to one member of a cluster, or to the only one."""

import ipaddress
from pathlib import Path
from typing import cast

import grpc

from protocols.etcd.door import DoorChannel
from protocols.etcd.errors import BadEndpoint
from protocols.etcd.options import DOOR, EtcdOptions

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
        return cast(grpc.aio.Channel, DoorChannel(Path(endpoint.removeprefix(DOOR))))
    arguments: list[tuple[str, str | int]] = [
        ("grpc.max_receive_message_length", options.max_message),
        ("grpc.max_send_message_length", options.max_message),
        ("grpc.initial_reconnect_backoff_ms", 20),
        ("grpc.min_reconnect_backoff_ms", 3000),  # time for one attempt, not between two
        ("grpc.max_reconnect_backoff_ms", 500),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if endpoint.startswith("unix:"):
        arguments.append(("grpc.default_authority", "localhost"))
        return grpc.aio.insecure_channel(endpoint, options=arguments)
    arguments += KEEPALIVE
    target = _target(endpoint)
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


def _target(endpoint: str) -> str:
    """Names are resolved by the channel, again whenever it has to connect anew."""
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdigit():
        raise BadEndpoint(f"store endpoint {endpoint!r} is not host:port or unix:PATH")
    try:
        version = ipaddress.ip_address(host.strip("[]")).version
    except ValueError:
        return f"dns:///{endpoint}"
    return f"ipv{version}:{endpoint}"

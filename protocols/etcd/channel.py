"""One gRPC channel to all members of a cluster."""

import asyncio
import ipaddress
import socket

import grpc

from protocols.etcd.errors import BadEndpoint
from protocols.etcd.options import EtcdOptions


async def open_channel(options: EtcdOptions) -> grpc.aio.Channel:
    """A channel that reconnects within half a second and moves on to another member by itself. Raises BadEndpoint."""
    if not options.endpoints:
        raise BadEndpoint("no endpoint of the store is given; set store_endpoints")
    arguments: list[tuple[str, str | int]] = [
        ("grpc.max_receive_message_length", options.max_message),
        ("grpc.max_send_message_length", options.max_message),
        ("grpc.initial_reconnect_backoff_ms", 20),
        ("grpc.min_reconnect_backoff_ms", 3000),  # time for one attempt, not between two
        ("grpc.max_reconnect_backoff_ms", 500),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if options.endpoints[0].startswith("unix:"):
        arguments.append(("grpc.default_authority", "localhost"))
        return grpc.aio.insecure_channel(options.endpoints[0], options=arguments)
    arguments += [("grpc.keepalive_time_ms", 10_000), ("grpc.keepalive_timeout_ms", 5_000)]
    target = await _target(options.endpoints)
    if options.ca is None:
        return grpc.aio.insecure_channel(target, options=arguments)
    host = options.endpoints[0].rpartition(":")[0].strip("[]")
    if not _numeric(host):
        arguments.append(("grpc.ssl_target_name_override", host))
    return grpc.aio.secure_channel(target, _credentials(options), options=arguments)


async def _target(endpoints: tuple[str, ...]) -> str:
    addresses = [address for endpoint in endpoints for address in await _resolve(endpoint)]
    v4 = [address for address in addresses if not address.startswith("[")]
    return f"ipv4:{','.join(v4)}" if v4 else f"ipv6:{','.join(addresses)}"


async def _resolve(endpoint: str) -> list[str]:
    host, _, port = endpoint.rpartition(":")
    if not host or not port.isdigit():
        raise BadEndpoint(f"store endpoint {endpoint!r} is not host:port or unix:PATH")
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
    except OSError as error:
        raise BadEndpoint(f"store endpoint {endpoint!r} cannot be resolved: {error.strerror}") from None
    return [_address(family, str(at[0]), int(at[1])) for family, _, _, _, at in found]


def _address(family: int, host: str, port: int) -> str:
    return f"[{host}]:{port}" if family == socket.AF_INET6 else f"{host}:{port}"


def _numeric(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _credentials(options: EtcdOptions) -> grpc.ChannelCredentials:
    files = (options.ca, options.key, options.cert)
    try:
        ca, key, cert = (path.read_bytes() if path else None for path in files)
    except OSError as error:
        raise BadEndpoint(f"cannot read the store's certificate {error.filename}: {error.strerror}") from None
    return grpc.ssl_channel_credentials(ca, key, cert)

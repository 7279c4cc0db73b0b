"""The gRPC server: routes of etcd's methods, errors as status codes, and the addresses it listens on."""

import asyncio
import os
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError, Message

from actors.store.model.errors import ClientNotAuthenticated, ClientStalled, NotDecoded, NotSupported, StoreUnusable
from actors.store.model.options import MIB, StoreOptions
from actors.store.rpc.kv import KvService
from actors.store.rpc.lease import LeaseService
from actors.store.rpc.maintenance import MaintenanceService
from actors.store.rpc.watch import WatchService
from actors.store.server.client_certificates import (
    Generating,
    Streaming,
    certificate_seconds_left,
    check_before_each_answer,
    end_with_certificate,
    server_credentials,
)
from actors.store.server.private_endpoint import PrivateEndpoint
from protocols.errors import NodeplaneError
from protocols.process.files import write_atomic
from protocols.wire import etcd_pb2 as pb

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Decoding: TypeAlias = Callable[[bytes], Awaitable[Message]]
PACKAGE = "etcdserverpb"
OPTIONS = [
    ("grpc.max_receive_message_length", 16 * MIB),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    # Beyond the first limit gRPC drops calls at random as CANCELLED; our own lower bound answers with a reason.
    ("grpc.server.max_pending_requests", 16384),
    ("grpc.server.max_pending_requests_hard_limit", 32768),
    # Go clients ping every few seconds; the default would close their connections.
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_ping_strikes", 0),
]
STALLED_S = 60.0
"""Seconds a client may take to read a message of a snapshot, of which the store makes one at a time."""


async def _abort(context: Context, error: NodeplaneError) -> None:
    await context.abort(grpc.StatusCode[error.grpc], str(error))


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


def _decoded(data: bytes, request: type[Message]) -> Message:
    try:
        return request.FromString(data)
    except DecodeError:
        raise NotDecoded(f"etcdserver: this is not a {request.__name__}: the bytes do not decode") from None


def decoding(method: Callable[[Any], Awaitable[Message]], request: type[Message]) -> Decoding:
    """Return a method that takes bytes. It raises NotDecoded for others than a `request`."""

    async def call(data: bytes) -> Message:
        return await method(_decoded(data, request))

    return call


def unary(method: Decoding) -> Handler:
    """Return gRPC's handler of a method with one answer; clients whose certificate has expired are rejected."""

    async def call(data: bytes, context: Context) -> Message:
        try:
            certificate_seconds_left(context, time.time())
            return await method(data)
        except NodeplaneError as error:
            await _abort(context, error)
            raise

    return grpc.unary_unary_rpc_method_handler(call, None, _serialize)


def _guarded_stream(
    method: Callable[[Any], AsyncGenerator[Message, None]], request: type[Message]
) -> Callable[[bytes, Context], Awaitable[None]]:
    """Return a stream that ends when its client reads nothing for STALLED_S: it holds what others wait for."""

    async def call(data: bytes, context: Context) -> None:
        try:
            async with aclosing(method(_decoded(data, request))) as messages:
                async for message in messages:
                    certificate_seconds_left(context, time.time())
                    await _write(context, message)
        except NodeplaneError as error:
            await _abort(context, error)

    return call


async def _write(context: Context, message: Message) -> None:
    try:
        async with asyncio.timeout(STALLED_S):
            await context.write(message)
    except TimeoutError:
        raise ClientStalled(f"etcdserver: the client read nothing for {STALLED_S:g} s") from None


def streaming(method: Streaming) -> Streaming:
    """Wrap a stream so that it ends with UNAUTHENTICATED when the client's certificate expires."""

    async def call(requests: Any, context: Context) -> None:
        try:
            await end_with_certificate(method)(requests, context)
        except ClientNotAuthenticated as error:
            await _abort(context, error)

    return call


def generating(method: Generating) -> Generating:
    """Return a streaming method that ends when its client's certificate expires."""

    async def call(requests: Any, context: Context) -> AsyncIterator[Any]:
        try:
            async for answer in check_before_each_answer(method)(requests, context):
                yield answer
        except ClientNotAuthenticated as error:
            await _abort(context, error)

    return call


class Services:
    """All services of one store."""

    def __init__(
        self, kv: KvService, watch: WatchService, lease: LeaseService, maintenance: MaintenanceService
    ) -> None:
        self._kv, self._watch, self._lease, self._maintenance = kv, watch, lease, maintenance

    def methods(self) -> dict[str, Decoding]:
        """Return the unary methods by path, each from the bytes of a request to the answer or a NodeplaneError."""
        kv, lease, maintenance = self._kv, self._lease, self._maintenance
        return {
            "KV/Range": decoding(kv.range, pb.RangeRequest),
            "KV/Put": decoding(kv.put, pb.PutRequest),
            "KV/DeleteRange": decoding(kv.delete_range, pb.DeleteRangeRequest),
            "KV/Txn": decoding(kv.txn, pb.TxnRequest),
            "KV/Compact": decoding(kv.compact, pb.CompactionRequest),
            "Lease/LeaseGrant": decoding(lease.grant, pb.LeaseGrantRequest),
            "Lease/LeaseRevoke": decoding(lease.revoke, pb.LeaseRevokeRequest),
            "Lease/LeaseTimeToLive": decoding(lease.time_to_live, pb.LeaseTimeToLiveRequest),
            "Lease/LeaseLeases": decoding(lease.leases, pb.LeaseLeasesRequest),
            "Maintenance/Alarm": decoding(maintenance.alarm, pb.AlarmRequest),
            "Maintenance/Status": decoding(maintenance.status, pb.StatusRequest),
            "Maintenance/Defragment": decoding(maintenance.defragment, pb.DefragmentRequest),
            "Maintenance/Hash": decoding(maintenance.hash, pb.HashRequest),
            "Maintenance/HashKV": decoding(maintenance.hash_kv, pb.HashKVRequest),
            "Cluster/MemberList": decoding(maintenance.members, pb.MemberListRequest),
        }

    @property
    def watch(self) -> WatchService:
        return self._watch

    def handlers(self) -> dict[str, Handler]:
        """Return the gRPC handlers of all methods by path."""
        streams: dict[str, Handler] = {
            "Watch/Watch": grpc.stream_stream_rpc_method_handler(
                streaming(self._watch.watch), pb.WatchRequest.FromString, _serialize
            ),
            "Lease/LeaseKeepAlive": grpc.stream_stream_rpc_method_handler(
                generating(self._lease.keep_alive), pb.LeaseKeepAliveRequest.FromString, _serialize
            ),
            "Maintenance/Snapshot": grpc.unary_stream_rpc_method_handler(
                _guarded_stream(self._maintenance.snapshot, pb.SnapshotRequest), None, _serialize
            ),
        }
        return {**{path: unary(method) for path, method in self.methods().items()}, **streams}


async def healthy(data: bytes, context: Context) -> bytes:
    """Answer grpc.health.v1 with SERVING: a store that answers serves."""
    return b"\x08\x01"


async def _reject_unsupported(data: bytes, context: Context) -> bytes:
    text = "nodeplane's store has one member, no users and no roles: this call is for a cluster of etcd"
    await _abort(context, NotSupported(text))
    return b""


class Routes(grpc.GenericRpcHandler):
    """Routes of our methods and health checks; an explanation for the rest of etcd's API."""

    def __init__(self, handlers: dict[str, Handler]) -> None:
        self._handlers = {f"/{PACKAGE}.{path}": handler for path, handler in handlers.items()}
        self._handlers["/grpc.health.v1.Health/Check"] = grpc.unary_unary_rpc_method_handler(healthy)
        self._unsupported: Handler = grpc.unary_unary_rpc_method_handler(_reject_unsupported)

    def service(self, details: grpc.HandlerCallDetails) -> "Handler | None":
        known = self._handlers.get(details.method)
        if known is None and details.method.startswith((f"/{PACKAGE}.", "/v3electionpb.", "/v3lockpb.")):
            return self._unsupported
        return known


LOOPBACK = "127.0.0.1"


def free_port_of_last_start(file: Path) -> int:
    """Return the port in a file if nobody listens on it; else 0, which selects any."""
    try:
        port = int(file.read_text())
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((LOOPBACK, port))
    except (OSError, ValueError, OverflowError):
        return 0
    return port


class StoreServer:
    """Listens on the unix socket, the private endpoint and, with certificates, on loopback with mutual TLS."""

    def __init__(self, options: StoreOptions, services: Services) -> None:
        self._options = options
        self._server = grpc.aio.server(options=OPTIONS)
        self.address = ""
        """`127.0.0.1:PORT`, empty when only the socket is served."""
        self._private_endpoint = PrivateEndpoint(options.private_socket, services.methods(), services.watch.watch)
        self._server.add_generic_rpc_handlers((Routes(services.handlers()),))

    async def start(self) -> None:
        """Listen everywhere; raise StoreUnusable if an address cannot be used."""
        self._listen_unix()
        self._listen_tcp()
        await self._private_endpoint.start()
        await self._server.start()

    def _listen_unix(self) -> None:
        # The actor holds the lock of its name, so an existing socket file belongs to a dead process.
        path = self._options.socket
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            self._bind(partial(self._server.add_insecure_port, f"unix:{path}"), str(path))
        finally:
            os.umask(before)

    def _listen_tcp(self) -> None:
        options = self._options
        options.address_file.unlink(missing_ok=True)
        credentials = server_credentials(options)
        if credentials is None:
            return
        wanted = f"{LOOPBACK}:{options.port or free_port_of_last_start(options.port_file)}"
        port = self._bind(partial(self._server.add_secure_port, wanted, credentials), wanted)
        self.address = f"{LOOPBACK}:{port}"
        write_atomic(options.address_file, f"{self.address}\n".encode(), is_durable=False)
        if not options.port:
            with suppress(OSError):  # a store starts on a full disk, too
                write_atomic(options.port_file, f"{port}\n".encode(), is_durable=False)

    def _bind(self, bind: Callable[[], int], where: str) -> int:
        try:
            port = bind()
        except RuntimeError:
            port = 0
        if not port:
            raise StoreUnusable(f"cannot listen on {where}: in use or not permitted; stop the other or choose another")
        return port

    async def stop(self, grace: float) -> None:
        await self._private_endpoint.stop()
        await self._server.stop(grace)
        self._options.socket.unlink(missing_ok=True)
        self._options.address_file.unlink(missing_ok=True)

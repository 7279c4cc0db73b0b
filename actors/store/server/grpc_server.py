"""The gRPC server: which method is whose, how errors are answered, where it listens."""

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError, Message

from actors.store.model.errors import ClientNotProven, NotDecoded, NotSupported, StoreUnusable
from actors.store.model.options import MIB, StoreOptions
from actors.store.server.client_certificates import (
    Generating,
    Streaming,
    bounded,
    checked,
    seconds_left,
    server_credentials,
)
from actors.store.server.private_endpoint import Door
from actors.store.services.kv import KvService
from actors.store.services.lease import LeaseService
from actors.store.services.maintenance import MaintenanceService
from actors.store.services.watch import WatchService
from protocols.errors import NodeplaneError
from protocols.files import write_atomic
from protocols.wire import etcd_pb2 as pb

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
Decoding: TypeAlias = Callable[[bytes], Awaitable[Message]]
PACKAGE = "etcdserverpb"
OPTIONS = [
    ("grpc.max_receive_message_length", 16 * MIB),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    # Beyond the first of these, calls are dropped at random as CANCELLED; our own bound answers with a reason.
    ("grpc.server.max_pending_requests", 16384),
    ("grpc.server.max_pending_requests_hard_limit", 32768),
    # Go clients ping every few seconds; the default would end their connections.
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_ping_strikes", 0),
]


async def _abort(context: Context, error: NodeplaneError) -> None:
    await context.abort(grpc.StatusCode[error.grpc], str(error))


def serialize(message: Message) -> bytes:
    return message.SerializeToString()


def decoded(data: bytes, request: type[Message]) -> Message:
    """Raises NotDecoded."""
    try:
        return request.FromString(data)
    except DecodeError:
        raise NotDecoded(f"etcdserver: this is not a {request.__name__}: the bytes do not decode") from None


def decoding(method: Callable[[Any], Awaitable[Message]], request: type[Message]) -> Decoding:
    async def call(data: bytes) -> Message:
        return await method(decoded(data, request))

    return call


def unary(method: Decoding) -> Handler:
    async def call(data: bytes, context: Context) -> Message:
        try:
            seconds_left(context, time.time())
            return await method(data)
        except NodeplaneError as error:
            await _abort(context, error)
            raise

    return grpc.unary_unary_rpc_method_handler(call, None, serialize)


def guarded_stream(
    method: Callable[[Any], AsyncIterator[Message]], request: type[Message]
) -> Callable[[bytes, Context], AsyncIterator[Message]]:
    async def call(data: bytes, context: Context) -> AsyncIterator[Message]:
        try:
            async for message in method(decoded(data, request)):
                seconds_left(context, time.time())
                yield message
        except NodeplaneError as error:
            await _abort(context, error)

    return call


def streaming(method: Streaming) -> Streaming:
    """End with the client's certificate, with an error that says so."""

    async def call(requests: Any, context: Context) -> None:
        try:
            await bounded(method)(requests, context)
        except ClientNotProven as error:
            await _abort(context, error)

    return call


def generating(method: Generating) -> Generating:
    async def call(requests: Any, context: Context) -> AsyncIterator[Any]:
        try:
            async for answer in checked(method)(requests, context):
                yield answer
        except ClientNotProven as error:
            await _abort(context, error)

    return call


class Services:
    """All services of one store."""

    def __init__(
        self, kv: KvService, watch: WatchService, lease: LeaseService, maintenance: MaintenanceService
    ) -> None:
        self._kv, self._watch, self._lease, self._maintenance = kv, watch, lease, maintenance

    def methods(self) -> dict[str, Decoding]:
        """Unary calls, by path, from the bytes of a request to the answer. Each raises NodeplaneError."""
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
        """Everything, for gRPC, by path."""
        streams: dict[str, Handler] = {
            "Watch/Watch": grpc.stream_stream_rpc_method_handler(
                streaming(self._watch.watch), pb.WatchRequest.FromString, serialize
            ),
            "Lease/LeaseKeepAlive": grpc.stream_stream_rpc_method_handler(
                generating(self._lease.keep_alive), pb.LeaseKeepAliveRequest.FromString, serialize
            ),
            "Maintenance/Snapshot": grpc.unary_stream_rpc_method_handler(
                guarded_stream(self._maintenance.snapshot, pb.SnapshotRequest), None, serialize
            ),
        }
        return {**{path: unary(method) for path, method in self.methods().items()}, **streams}


async def healthy(data: bytes, context: Context) -> bytes:
    """grpc.health.v1: whoever is answered at all is served."""
    return b"\x08\x01"


async def unsupported(data: bytes, context: Context) -> bytes:
    text = "nodeplane's store has one member, no users and no roles: this call is for a cluster of etcd"
    await _abort(context, NotSupported(text))
    return b""


class Routes(grpc.GenericRpcHandler):
    """Our methods, health checks, and a sentence for the rest of etcd's API."""

    def __init__(self, handlers: dict[str, Handler]) -> None:
        self._handlers = {f"/{PACKAGE}.{path}": handler for path, handler in handlers.items()}
        self._handlers["/grpc.health.v1.Health/Check"] = grpc.unary_unary_rpc_method_handler(healthy)
        self._unsupported: Handler = grpc.unary_unary_rpc_method_handler(unsupported)

    def service(self, details: grpc.HandlerCallDetails) -> "Handler | None":
        known = self._handlers.get(details.method)
        if known is None and details.method.startswith((f"/{PACKAGE}.", "/v3electionpb.", "/v3lockpb.")):
            return self._unsupported
        return known


class Server:
    """Listens on the unix socket, and on loopback with mutual TLS when there are certificates."""

    def __init__(self, options: StoreOptions, services: Services) -> None:
        self._options = options
        self._server = grpc.aio.server(options=OPTIONS)
        self.address = ""
        """`127.0.0.1:PORT`, empty when only the socket is served."""
        self._door = Door(options.door, services.methods(), services.watch.watch)
        self._server.add_generic_rpc_handlers((Routes(services.handlers()),))

    async def start(self) -> None:
        """Raises StoreUnusable."""
        self._listen_unix()
        self._listen_tcp()
        await self._door.start()
        await self._server.start()

    def _listen_unix(self) -> None:
        # The caller holds the lock of this name, so a socket file here is a dead one's.
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
        wanted = f"127.0.0.1:{options.port}"
        port = self._bind(partial(self._server.add_secure_port, wanted, credentials), wanted)
        self.address = f"127.0.0.1:{port}"
        write_atomic(options.address_file, f"{self.address}\n".encode())

    def _bind(self, bind: Callable[[], int], where: str) -> int:
        try:
            port = bind()
        except RuntimeError:
            port = 0
        if not port:
            raise StoreUnusable(f"cannot listen on {where}: in use or not permitted; stop the other or choose another")
        return port

    async def stop(self, grace: float) -> None:
        await self._door.stop()
        await self._server.stop(grace)
        self._options.socket.unlink(missing_ok=True)
        self._options.address_file.unlink(missing_ok=True)

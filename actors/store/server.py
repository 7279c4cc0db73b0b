"""The gRPC server: which method is whose, how errors are answered, where it listens."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import DecodeError, Message

from actors.store.errors import NotDecoded, NotSupported, StoreUnusable
from actors.store.kv import KvService
from actors.store.lease import LeaseService
from actors.store.maintenance import MaintenanceService
from actors.store.options import MIB, StoreOptions
from actors.store.watch import WatchService
from protocols.errors import NodeplaneError
from protocols.files import write_atomic
from protocols.wire import etcd_pb2 as pb

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
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


def guarded(
    method: Callable[[Any], Awaitable[Message]], request: type[Message]
) -> Callable[[bytes, Context], Awaitable[Message]]:
    async def call(data: bytes, context: Context) -> Message:
        try:
            return await method(decoded(data, request))
        except NodeplaneError as error:
            await _abort(context, error)
            raise

    return call


def guarded_stream(
    method: Callable[[Any], AsyncIterator[Message]], request: type[Message]
) -> Callable[[bytes, Context], AsyncIterator[Message]]:
    async def call(data: bytes, context: Context) -> AsyncIterator[Message]:
        try:
            async for message in method(decoded(data, request)):
                yield message
        except NodeplaneError as error:
            await _abort(context, error)

    return call


def unary(method: Callable[[Any], Awaitable[Message]], request: type[Message]) -> Handler:
    return grpc.unary_unary_rpc_method_handler(guarded(method, request), None, serialize)


class Services:
    """All services of one store."""

    def __init__(
        self, kv: KvService, watch: WatchService, lease: LeaseService, maintenance: MaintenanceService
    ) -> None:
        self._kv, self._watch, self._lease, self._maintenance = kv, watch, lease, maintenance

    def table(self) -> dict[str, dict[str, Handler]]:
        kv, lease, maintenance = self._kv, self._lease, self._maintenance
        return {
            "KV": {
                "Range": unary(kv.range, pb.RangeRequest),
                "Put": unary(kv.put, pb.PutRequest),
                "DeleteRange": unary(kv.delete_range, pb.DeleteRangeRequest),
                "Txn": unary(kv.txn, pb.TxnRequest),
                "Compact": unary(kv.compact, pb.CompactionRequest),
            },
            "Watch": {
                "Watch": grpc.stream_stream_rpc_method_handler(
                    self._watch.watch, pb.WatchRequest.FromString, serialize
                ),
            },
            "Lease": {
                "LeaseGrant": unary(lease.grant, pb.LeaseGrantRequest),
                "LeaseRevoke": unary(lease.revoke, pb.LeaseRevokeRequest),
                "LeaseKeepAlive": grpc.stream_stream_rpc_method_handler(
                    lease.keep_alive, pb.LeaseKeepAliveRequest.FromString, serialize
                ),
                "LeaseTimeToLive": unary(lease.time_to_live, pb.LeaseTimeToLiveRequest),
                "LeaseLeases": unary(lease.leases, pb.LeaseLeasesRequest),
            },
            "Maintenance": {
                "Alarm": unary(maintenance.alarm, pb.AlarmRequest),
                "Status": unary(maintenance.status, pb.StatusRequest),
                "Defragment": unary(maintenance.defragment, pb.DefragmentRequest),
                "Hash": unary(maintenance.hash, pb.HashRequest),
                "HashKV": unary(maintenance.hash_kv, pb.HashKVRequest),
                "Snapshot": grpc.unary_stream_rpc_method_handler(
                    guarded_stream(maintenance.snapshot, pb.SnapshotRequest), None, serialize
                ),
            },
            "Cluster": {"MemberList": unary(maintenance.members, pb.MemberListRequest)},
        }


async def healthy(data: bytes, context: Context) -> bytes:
    """grpc.health.v1: whoever is answered at all is served."""
    return b"\x08\x01"


async def unsupported(data: bytes, context: Context) -> bytes:
    text = "nodeplane's store has one member, no users and no roles: this call is for a cluster of etcd"
    await _abort(context, NotSupported(text))
    return b""


class Others(grpc.GenericRpcHandler):
    """Health checks, and a sentence for the rest of etcd's API."""

    def service(self, details: grpc.HandlerCallDetails) -> "Handler | None":
        if details.method == "/grpc.health.v1.Health/Check":
            return grpc.unary_unary_rpc_method_handler(healthy)
        if details.method.startswith((f"/{PACKAGE}.", "/v3electionpb.", "/v3lockpb.")):
            return grpc.unary_unary_rpc_method_handler(unsupported)
        return None


class Server:
    """Listens on the unix socket, and on loopback with mutual TLS when there are certificates."""

    def __init__(self, options: StoreOptions, services: Services) -> None:
        self._options = options
        self._server = grpc.aio.server(options=OPTIONS)
        self.address = ""
        """`127.0.0.1:PORT`, empty when only the socket is served."""
        for name, handlers in services.table().items():
            handler = grpc.method_handlers_generic_handler(f"{PACKAGE}.{name}", handlers)
            self._server.add_generic_rpc_handlers((handler,))
        self._server.add_generic_rpc_handlers((Others(),))

    async def start(self) -> None:
        """Raises StoreUnusable."""
        self._listen_unix()
        self._listen_tcp()
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
        if not all(path.exists() for path in (options.ca, options.cert, options.key)):
            return
        credentials = grpc.ssl_server_credentials(
            [(options.key.read_bytes(), options.cert.read_bytes())], options.ca.read_bytes(), require_client_auth=True
        )
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
        await self._server.stop(grace)
        self._options.socket.unlink(missing_ok=True)
        self._options.address_file.unlink(missing_ok=True)

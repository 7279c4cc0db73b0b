"""A store, or Debian's etcd, as a process of its own for tests; and raw calls of the etcd API."""

import asyncio
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import grpc

from protocols.etcd.options import PRIVATE, private_endpoint
from protocols.etcd.transport.private_connection import private_channel
from protocols.process.settings import save_settings
from protocols.wire import etcd_pb2 as pb
from tests.support.actor_process import Process, start_actor
from tests.support.ports import free_port
from tests.support.settings import plane_settings
from tests.support.waiting import until as until

T = TypeVar("T")
UNARY: dict[str, tuple[str, Any]] = {
    "range": ("KV/Range", pb.RangeResponse),
    "put": ("KV/Put", pb.PutResponse),
    "delete_range": ("KV/DeleteRange", pb.DeleteRangeResponse),
    "txn": ("KV/Txn", pb.TxnResponse),
    "compact": ("KV/Compact", pb.CompactionResponse),
    "grant": ("Lease/LeaseGrant", pb.LeaseGrantResponse),
    "revoke": ("Lease/LeaseRevoke", pb.LeaseRevokeResponse),
    "time_to_live": ("Lease/LeaseTimeToLive", pb.LeaseTimeToLiveResponse),
    "leases": ("Lease/LeaseLeases", pb.LeaseLeasesResponse),
    "status": ("Maintenance/Status", pb.StatusResponse),
    "alarm": ("Maintenance/Alarm", pb.AlarmResponse),
    "hash": ("Maintenance/Hash", pb.HashResponse),
    "hash_kv": ("Maintenance/HashKV", pb.HashKVResponse),
    "defragment": ("Maintenance/Defragment", pb.DefragmentResponse),
    "members": ("Cluster/MemberList", pb.MemberListResponse),
}


def serialize(message: Any) -> bytes:
    return bytes(message.SerializeToString())


class Api:
    """Raw calls: `await api.put(pb.PutRequest(...))`."""

    def __init__(self, target: str, timeout: float = 30.0) -> None:
        """`door:PATH` goes through the embedded store's second door; streams it does not have use its socket."""
        self._timeout = timeout
        path = target.removeprefix(PRIVATE)
        self._quick = private_channel(Path(path)) if path != target else None
        target = f"unix:{Path(path).with_suffix('.sock')}" if self._quick else target
        options = [("grpc.default_authority", "localhost")] if target.startswith("unix:") else []
        limits = [("grpc.max_receive_message_length", 64 << 20), ("grpc.max_send_message_length", 64 << 20)]
        backoff = [("grpc.initial_reconnect_backoff_ms", 20), ("grpc.max_reconnect_backoff_ms", 100)]
        self.channel = grpc.aio.insecure_channel(target, options=[*options, *limits, *backoff])

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        path, answer = UNARY[name]
        channel = self._quick or self.channel
        stub = channel.unary_unary(f"/etcdserverpb.{path}", serialize, answer.FromString)
        return lambda request: stub(request, timeout=self._timeout, wait_for_ready=True)

    def stream(self, path: str, answer: Any) -> Any:
        return self.channel.stream_stream(f"/etcdserverpb.{path}", serialize, answer.FromString)(wait_for_ready=True)

    def watch(self) -> Any:
        if self._quick:
            return self._quick.stream_stream("/etcdserverpb.Watch/Watch", serialize, pb.WatchResponse.FromString)()
        return self.stream("Watch/Watch", pb.WatchResponse)

    async def close(self) -> None:
        await self.channel.close()
        if self._quick:
            await self._quick.close()

    async def fails(self, call: Awaitable[Any]) -> tuple[str, str]:
        """Code and text of a call that must fail."""
        try:
            answer = await call
        except grpc.aio.AioRpcError as error:
            return error.code().name, error.details() or ""
        raise AssertionError(f"expected an error, got {answer!r}")


async def read(stream: Any, within: float = 30.0) -> Any:
    return await asyncio.wait_for(stream.read(), within)


def play(target: str, story: Callable[[Api], Awaitable[T]]) -> T:
    """Run a story against an endpoint."""

    async def run() -> T:
        api = Api(target)
        try:
            return await story(api)
        finally:
            await api.close()

    return asyncio.run(run())


def listened_at(path: Path) -> bool:
    """A socket is there for a moment before anybody listens at it."""
    with socket.socket(socket.AF_UNIX) as knock:
        try:
            knock.connect(str(path))
        except OSError:
            return False
    return True


@contextmanager
def short_directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class Lab:
    """A root with settings, in which actors run as processes."""

    def __init__(self, root: Path, **changes: Any) -> None:
        self.root = root
        self.socket = root / "run" / "store.sock"
        self.target = f"unix:{self.socket}"
        self.door = private_endpoint(self.target)
        self._processes: dict[str, Process] = {}
        self._earlier: list[Process] = []
        (root / "run").mkdir(mode=0o700, exist_ok=True)
        self.settings = plane_settings(root, **{"store_sync": "normal", **changes})
        self.layout = self.settings.layout
        save_settings(self.layout.settings, self.settings)

    def start(self, actor: str) -> Process:
        process = start_actor(actor, self.layout.settings, self.root / f"{actor}.log")
        if actor in self._processes:
            self._earlier.append(self._processes[actor])
        self._processes[actor] = process
        return process

    def pid(self, actor: str) -> int:
        return self._processes[actor].pid

    def log(self, actor: str) -> str:
        return (self.root / f"{actor}.log").read_text()

    def kill(self, actor: str) -> None:
        self._processes[actor].send_signal(signal.SIGKILL)
        self._processes[actor].wait(30)

    def signal(self, actor: str, number: int) -> None:
        self._processes[actor].send_signal(number)

    def restart(self, actor: str) -> None:
        self.kill(actor)
        self.start(actor)

    def stop(self) -> None:
        for process in [*self._earlier, *self._processes.values()]:
            if process.poll() is None:
                process.terminate()
        for process in self._earlier:
            process.wait(30)
        for name, process in self._processes.items():
            try:
                code = process.wait(30)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)
                process.wait(30)
                raise AssertionError(f"{name} did not stop: {self.log(name)}") from None
            assert code in (0, 1, -signal.SIGKILL), f"{name} ended with {code}: {self.log(name)}"

    def __enter__(self) -> "Lab":
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


@contextmanager
def lab(*actors: str, **changes: Any) -> Iterator[Lab]:
    with short_directory() as root, Lab(root, **changes) as made:
        for actor in actors:
            made.start(actor)
        yield made


def etcd_command(binary: str, data: Path, client: int, peer: int) -> list[str]:
    """An etcd of one member."""
    flags = {
        "data-dir": str(data),
        "listen-client-urls": f"http://127.0.0.1:{client}",
        "advertise-client-urls": f"http://127.0.0.1:{client}",
        "listen-peer-urls": f"http://127.0.0.1:{peer}",
        "initial-advertise-peer-urls": f"http://127.0.0.1:{peer}",
        "initial-cluster": f"default=http://127.0.0.1:{peer}",
        "experimental-watch-progress-notify-interval": "1s",
        "log-level": "error",
    }
    return [binary, *(f"--{name}={value}" for name, value in flags.items())]


@contextmanager
def etcd_process(binary: str, data: Path | None = None) -> Iterator[str]:
    """An etcd of one member, fresh or with the data it finds; gives its gRPC target."""
    with short_directory() as root:
        client, peer = free_port(), free_port()
        command = etcd_command(binary, data or root / "data", client, peer)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=root)
        try:
            target = f"127.0.0.1:{client}"
            until("etcd answers", lambda: answers(target))
            yield target
        finally:
            process.kill()
            process.wait(30)


def answers(target: str) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", int(target.rpartition(":")[2])), 5.0):
            return True
    except OSError:
        return False

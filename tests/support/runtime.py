"""The embedded runtime as a real process on a socket of its own, and the CRI calls its tests make."""

import asyncio
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import grpc

from actors.runtime.cgroups.hierarchy import find_hierarchy
from protocols.process.settings import save_settings
from protocols.wire import cri_pb2 as pb
from tests.support.actor_process import Process, start_actor
from tests.support.settings import plane_settings
from tests.support.waiting import until_async, until_true

OPTIONS = [
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.initial_reconnect_backoff_ms", 20),
    ("grpc.min_reconnect_backoff_ms", 20),
]


def alive(pid: int) -> bool:
    """Runs, and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def limits() -> set[str]:
    """Controllers this machine lets us use."""
    probe = Path(f"/np-probe-{os.getpid()}")
    found = find_hierarchy(probe)
    for base in set(found.bases.values()) if found else ():
        base.rmdir()
    return set(found.bases) if found else set()


def running(*argv: str) -> list[int]:
    """Processes of the host with exactly these arguments; a container knows itself by other numbers."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        except OSError:
            continue
        if tuple(words) == argv and alive(int(name)):
            found.append(int(name))
    return found


def using(root: Path) -> list[int]:
    """Processes whose working directory or arguments lie below `root`."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            here = os.readlink(f"/proc/{name}/cwd") + Path(f"/proc/{name}/cmdline").read_bytes().decode()
        except OSError:
            continue
        if str(root) in here and int(name) != os.getpid() and alive(int(name)):
            found.append(int(name))
    return found


def _not_yet(error: grpc.aio.AioRpcError) -> bool:
    """containerd listens before its CRI part has recovered its state, and answers UNKNOWN until it has."""
    unready = error.code() is grpc.StatusCode.UNKNOWN and "not initialized" in str(error.details())
    return unready or error.code() is grpc.StatusCode.UNAVAILABLE


class RuntimeProcess:
    """`async with RuntimeProcess() as runtime:` starts it; at the end nothing of it may be left."""

    def __init__(self) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
        self.settings = plane_settings(self.root)
        layout = self.settings.layout
        layout.run.mkdir(mode=0o700)
        save_settings(layout.settings, self.settings)
        self.socket = layout.runtime_socket
        self.logs = self.root / "logs"
        self._process: Process | None = None
        self._channel: grpc.aio.Channel | None = None
        self._pods = 0

    async def __aenter__(self) -> "RuntimeProcess":
        await self.start()
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if self._process is None:
                await self.start()
            for item in (await self.call("ListPodSandbox")).items:
                await self.call("RemovePodSandbox", pod_sandbox_id=item.id)
            await self.stop()
            await until_true(lambda: not using(self.root), what=f"left over: {using(self.root)}")
        finally:
            for pid in using(self.root):
                os.kill(pid, signal.SIGKILL)
            shutil.rmtree(self.root, ignore_errors=True)

    # the process

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        self._spawn()
        await self.connect()

    def _spawn(self) -> None:
        self._process = start_actor("runtime", self.settings.layout.settings, self.root / "runtime.err")

    async def connect(self) -> None:
        if self._channel is not None:
            await self._channel.close()
        self._channel = grpc.aio.insecure_channel(f"unix:{self.socket}", options=OPTIONS)
        deadline = time.monotonic() + 60
        while True:
            try:
                await self.call("Version")
                return
            except grpc.aio.AioRpcError as error:
                if not _not_yet(error) or time.monotonic() > deadline:
                    raise AssertionError(f"{error!r}\n{self.errors()}") from None
                await asyncio.sleep(0.01)

    def errors(self) -> str:
        return (self.root / "runtime.err").read_text()

    async def kill(self) -> None:
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        await self._end(signal.SIGTERM)

    async def _end(self, number: int) -> None:
        process, self._process = self._process, None
        assert process is not None
        if self._channel is not None:
            await self._channel.close()
            self._channel = None
        process.send_signal(number)
        await asyncio.to_thread(process.wait, 30)

    # CRI

    async def call(self, method: str, service: str = "RuntimeService", **fields: Any) -> Any:
        return await self.raw(method, self.request(method, service)(**fields), service)

    async def raw(self, method: str, request: Any, service: str = "RuntimeService") -> Any:
        described = pb.DESCRIPTOR.services_by_name[service].methods_by_name[method]
        answer = getattr(pb, described.output_type.name)
        data = request if isinstance(request, bytes) else request.SerializeToString()
        assert self._channel is not None
        stub: Any = self._channel.unary_unary(
            f"/runtime.v1.{service}/{method}", response_deserializer=answer.FromString
        )
        return await stub(data, timeout=40)

    @staticmethod
    def request(method: str, service: str = "RuntimeService") -> Any:
        described = pb.DESCRIPTOR.services_by_name[service].methods_by_name[method]
        return getattr(pb, described.input_type.name)

    async def events(self) -> Any:
        """An open GetContainerEvents call."""
        assert self._channel is not None
        stub = self._channel.unary_stream(
            "/runtime.v1.RuntimeService/GetContainerEvents",
            request_serializer=pb.GetEventsRequest.SerializeToString,
            response_deserializer=pb.ContainerEventResponse.FromString,
        )
        call = stub(pb.GetEventsRequest())
        await asyncio.wait_for(call.initial_metadata(), 60)
        return call

    async def sandbox(self, name: str = "", attempt: int = 0, host: bool = False, **fields: Any) -> str:
        self._pods += 1
        name = name or f"pod-{self._pods}"
        network = pb.NODE if host else pb.POD
        options = pb.NamespaceOption(network=network)
        linux = pb.LinuxPodSandboxConfig(
            security_context=pb.LinuxSandboxSecurityContext(namespace_options=options), **fields.pop("of_linux", {})
        )
        config = pb.PodSandboxConfig(
            metadata=pb.PodSandboxMetadata(name=name, uid=f"uid-{name}", namespace="default", attempt=attempt),
            log_directory=str(self.logs / name),
            linux=linux,
            **fields,
        )
        return str((await self.call("RunPodSandbox", config=config)).pod_sandbox_id)

    async def create(
        self, sandbox: str, *command: str, name: str = "main", image: str = "busybox", **fields: Any
    ) -> str:
        config = pb.ContainerConfig(
            metadata=fields.pop("metadata", pb.ContainerMetadata(name=name)),
            image=pb.ImageSpec(image=image),
            command=command,
            log_path=fields.pop("log_path", f"{name}/0.log"),
            **fields,
        )
        return str((await self.call("CreateContainer", pod_sandbox_id=sandbox, config=config)).container_id)

    async def run(self, sandbox: str, *command: str, **fields: Any) -> str:
        id = await self.create(sandbox, *command, **fields)
        await self.call("StartContainer", container_id=id)
        return id

    async def status(self, id: str) -> Any:
        return (await self.call("ContainerStatus", container_id=id)).status

    async def ended(self, id: str, timeout: float = 60.0) -> Any:
        over = pb.CONTAINER_EXITED
        return await until_async(f"end of {id}", lambda: self.status(id), timeout, 0.005, lambda s: s.state == over)

    async def shim(self, id: str) -> int:
        import json

        return int(
            json.loads((await self.call("ContainerStatus", container_id=id, verbose=True)).info["info"])["shimPid"]
        )

    def started(self, id: str) -> dict[str, Any]:
        """The shim's note of the start."""
        import json

        return dict(json.loads((self.root / "runtime" / "shims" / id / "started.json").read_text()))

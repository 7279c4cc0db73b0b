"""Stand between a kubelet and the plugins and drivers that are pointed at another directory, and record both.

A plugin registers at our kubelet.sock; a socket of ours that forwards to the plugin's is registered at kubelet's. A
driver's socket in our plugins_registry/ gets one of ours in kubelet's, whose answer to GetInfo names ours as the
endpoint. When kubelet restarts, kubelet.sock is bound anew in both directories, so that plugins register again.
"""

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from protocols.process.inotify import DirectoryChanges
from protocols.process.sockets import answers, is_socket, prepare_directory, prepare_socket, private_sockets
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.methods import LIMITS, Service, unix_channel
from protocols.wire.plugin_names import endpoint_fault
from protocols.wire.plugins import REGISTER
from supervisor.calls.sent import Sent
from supervisor.capture.proxy import MOST_ERROR, Proxy
from supervisor.capture.recording import Recording

MOST_PROXIES = 64
"""Plugins and drivers at once; further ones are rejected or left alone."""
MOST_OLD = 4
"""Open connections of kubelet to earlier registrations of one plugin."""
DRAIN_S = 0.5
"""Time for the streams of a driver to end after its socket is gone: kubelet ends them when ours is."""
RESCAN_S = 1.0
"""Interval of full scans, in case a notification of the kernel is lost."""
REGISTER_S = 40.0
PLUGINS, REGISTRY, KUBELET = "device-plugins", "plugins_registry", "kubelet.sock"

Identity = tuple[int, int]


class Beside:
    """Callers run `serve` and then `stop`. `say` gets one line for everything that happens."""

    def __init__(self, kubelet: Path, served: Path, recording: Recording, say: Callable[[str], None]) -> None:
        self._kubelet, self._served, self._recording, self._say = kubelet, served, recording, say
        self._numbers = itertools.count(1)
        self._server: grpc.aio.Server | None = None
        self._node: Identity | None = None
        """The kubelet.sock for which ours was bound."""
        self._plugins: list[Proxy] = []
        self._drivers: dict[Path, tuple[Identity, Proxy]] = {}
        self._changes: DirectoryChanges | None = None

    async def serve(self, over: Callable[[], bool]) -> None:
        """Serve until `over`, which is asked each second and after `wake`. Raises SocketInUse, SettingsInvalid."""
        prepare_socket(self._served / PLUGINS / KUBELET)
        prepare_directory(self._served / REGISTRY)
        changes = self._changes = DirectoryChanges()
        try:
            changes.watch([self._kubelet / PLUGINS, self._served / REGISTRY])
            while not over():
                await self._follow_kubelet()
                await self._follow_registry()
                await changes.wait(RESCAN_S)
        finally:
            changes.close()

    def wake(self) -> None:
        if self._changes is not None:
            self._changes.wake()

    async def stop(self) -> None:
        """Remove all sockets of ours; kubelet and the plugins see each other go."""
        await self._unbind()  # first, so that no plugin registers meanwhile
        await self._stop_plugins()
        for _, proxy in self._drivers.values():
            await proxy.stop()
        self._drivers = {}

    async def _stop_plugins(self) -> None:
        """Stop them; a registration that fails meanwhile removes its own."""
        while self._plugins:
            await self._plugins.pop().stop()

    async def _follow_kubelet(self) -> None:
        """Bind our kubelet.sock when kubelet has bound its own, and remove it when kubelet is gone."""
        node = _identity(self._kubelet / PLUGINS / KUBELET)
        if node == self._node:
            return
        await self._unbind()
        await self._stop_plugins()
        self._node = node
        if node is not None:
            await self._bind()
            self._say(f"kubelet serves; plugins may register in {self._served}")

    async def _bind(self) -> None:
        self._server = grpc.aio.server(options=LIMITS)
        self._server.add_generic_rpc_handlers((Service().unary(REGISTER, self._register).handler(),))
        with private_sockets():
            self._server.add_insecure_port(f"unix:{self._served / PLUGINS / KUBELET}")
        await self._server.start()

    async def _unbind(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None
            (self._served / PLUGINS / KUBELET).unlink(missing_ok=True)

    async def _register(self, request: pb.RegisterRequest, context: "grpc.aio.ServicerContext[Any, Any]") -> pb.Empty:
        sent = Sent(REGISTER, request.resource_name, request.endpoint, request.SerializeToString(), incoming=True)
        try:
            await self._forward(request)
        except grpc.aio.AioRpcError as error:
            sent.status, sent.error = error.code().name, (error.details() or "")[:MOST_ERROR]
        self._recording.add(sent.record())
        if sent.status != "OK":
            self._say(f"kubelet rejects {request.resource_name}: {sent.error}")
            await context.abort(grpc.StatusCode[sent.status], sent.error)
        self._say(f"{request.resource_name} has registered")
        return pb.Empty()

    async def _forward(self, request: pb.RegisterRequest) -> None:
        """Register a socket of ours for the plugin's. Raises AioRpcError as kubelet answered."""
        forwarded = pb.RegisterRequest()
        forwarded.CopyFrom(request)
        proxy = await self._plugin(request) if not endpoint_fault(request.endpoint) else None
        if proxy is not None:
            forwarded.endpoint = proxy.socket.name
        try:
            if proxy is not None:
                await proxy.start()
            async with unix_channel(self._kubelet / PLUGINS / KUBELET) as channel:
                await REGISTER.unary(channel)(forwarded, timeout=REGISTER_S)
        except BaseException:
            if proxy in self._plugins:
                self._plugins.remove(proxy)
                await proxy.stop()
            raise

    async def _plugin(self, request: pb.RegisterRequest) -> Proxy | None:
        """Return a new proxy, to be started; those that nobody uses any more are closed. None = there are too many."""
        target = self._served / PLUGINS / request.endpoint
        mine = [plugin for plugin in self._plugins if plugin.target == target]
        unused = [plugin for plugin in self._plugins if plugin.idle and (plugin in mine or not answers(plugin.target))]
        for old in {*unused, *mine[:-MOST_OLD]}:
            if old in self._plugins:  # else another registration stops it
                self._plugins.remove(old)
                await old.stop()
        if len(self._plugins) >= MOST_PROXIES:
            return None
        proxy = Proxy(self._socket(PLUGINS), target, self._recording, request.resource_name)
        self._plugins.append(proxy)
        return proxy

    async def _follow_registry(self) -> None:
        """Have a socket in kubelet's plugins_registry/ for each in ours."""
        identities = {path: identity for path in self._sockets() if (identity := _identity(path)) is not None}
        for path in [path for path, (identity, _) in self._drivers.items() if identities.get(path) != identity]:
            _, proxy = self._drivers.pop(path)
            await proxy.drain(DRAIN_S)
            await proxy.stop()
            self._say(f"{path.name} is gone")
        new = [path for path in sorted(identities.keys() - self._drivers.keys()) if answers(path)]
        for path in new[: MOST_PROXIES - len(self._drivers)]:
            proxy = Proxy(self._socket(REGISTRY), path, self._recording)
            self._drivers[path] = identities[path], proxy
            await proxy.start()
            self._say(f"found {path.name}")

    def _sockets(self) -> list[Path]:
        folder = self._served / REGISTRY
        return [path for path in folder.iterdir() if is_socket(path) and not path.name.startswith(".")]

    def _socket(self, folder: str) -> Path:
        """Return a path that no socket had: gRPC removes the path of a server that ends, whoever has it by then."""
        return self._kubelet / folder / f"nodeplane-{os.getpid()}-{next(self._numbers)}.sock"


def _identity(path: Path) -> Identity | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns

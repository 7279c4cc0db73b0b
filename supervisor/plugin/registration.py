"""Stay registered: the node forgets its plugins when it restarts, and shows it by making kubelet.sock anew."""

import asyncio
from collections.abc import Callable

import grpc
import grpc.aio

from protocols.inotify import Changes
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.device_plugin import REGISTER, VERSION
from protocols.wire.methods import unix_channel
from supervisor.plugin.inotify import changes_in
from supervisor.plugin.script import Register
from supervisor.plugin.server import PluginServer
from supervisor.plugin.types import PluginOptions

REGISTER_TIMEOUT = 15.0
RETRY_FIRST, RETRY_MOST = 0.05, 1.0


class Registration:
    def __init__(self, options: PluginOptions, server: PluginServer, say: Callable[[str], None]) -> None:
        self._options = options
        self._server = server
        self._say = say
        self._registered_at: tuple[int, int] | None = None
        self._retry = RETRY_FIRST
        self._complaint = ""
        self._changes: Changes | None = None
        self._held = False
        self.first = asyncio.Event()
        """Set once the plugin has been registered."""
        self._words = Register()

    def hold(self) -> None:
        """Do not register until `again`."""
        self._held = True

    def again(self, words: Register) -> None:
        """Serve and register anew; with other words than the true ones only once."""
        self._held, self._registered_at, self._words = False, None, words
        if self._changes is not None:
            self._changes.wake()

    async def keep(self) -> None:
        """Register now and whenever the node comes back. Never ends; nothing runs while all is well."""
        while not self._options.directory.is_dir():
            self._complain(f"waiting for {self._options.directory}")
            await asyncio.sleep(RETRY_MOST)
        changes = self._changes = changes_in(self._options.directory)
        try:
            while True:
                settled = await self._once()
                await changes.wait(None if settled else self._back_off())
        finally:
            changes.close()

    async def _once(self) -> bool:
        """Whether there is nothing to do until the directory changes."""
        if self._held:
            return True
        node = self._node()
        if node is None:
            self._complain(f"waiting for {self._options.kubelet_socket}")
            return True
        if node == self._registered_at:
            return True
        return await self._register(node)

    async def _register(self, node: tuple[int, int]) -> bool:
        await self._server.start()
        words, self._words = self._words, Register()
        request = pb.RegisterRequest(
            version=words.version or VERSION,
            endpoint=words.endpoint or self._options.endpoint,
            resource_name=words.resource or self._options.resource,
        )
        try:
            async with unix_channel(self._options.kubelet_socket) as channel:
                await REGISTER.unary(channel)(request, timeout=REGISTER_TIMEOUT)
        except grpc.aio.AioRpcError as error:
            self._complain(f"registration failed: {error.details()}")
            self._held = words != Register()
            return self._held
        self._registered_at, self._retry, self._complaint = node, RETRY_FIRST, ""
        self.first.set()
        self._say(f"registered {request.resource_name} with {len(self._server.devices)} devices")
        return True

    def _node(self) -> tuple[int, int] | None:
        """Which kubelet.sock this is; an inode number alone may come again."""
        try:
            status = self._options.kubelet_socket.stat()
        except OSError:
            return None
        return status.st_ino, status.st_ctime_ns

    def _back_off(self) -> float:
        self._retry, now = min(self._retry * 2, RETRY_MOST), self._retry
        return now

    def _complain(self, line: str) -> None:
        """Once per trouble, not once per try."""
        if line != self._complaint:
            self._complaint = line
            self._say(line)

"""Assemble the plugin: serve, stay registered, follow the health file, play the script, end on SIGTERM and SIGINT.

A plugin registers again and again: a node that restarts forgets its plugins, and creates kubelet.sock again.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import grpc
import grpc.aio

from actors.simulator.engine.files import changes_in, follow_file
from actors.simulator.engine.playback import Timeline, die_in_calls, play, until_one_ends
from actors.simulator.plugin.devices import PluginDevices, numbered, parse_health
from actors.simulator.plugin.script import PluginScript, PluginStep, Register
from actors.simulator.plugin.scripted_server import ScriptedServer
from actors.simulator.plugin.server import PluginOptions, PluginServer
from protocols.process.inotify import DirectoryChanges
from protocols.process.rates import backoff_delay
from protocols.process.scripts import Seconds
from protocols.process.tasks import awaited, signalled
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.methods import unix_channel
from protocols.wire.plugins import REGISTER, VERSION

REGISTER_TIMEOUT = 15.0
RETRY_FIRST, RETRY_MOST = 0.05, 1.0


class Registration:
    """Register the plugin, again after each restart of the node, and when the script orders it."""

    def __init__(self, options: PluginOptions, server: PluginServer, say: Callable[[str], None]) -> None:
        self._options = options
        self._server = server
        self._say = say
        self._registered_at: tuple[int, int] | None = None
        self._attempts = 0
        self._last_error = ""
        self._changes: DirectoryChanges | None = None
        self._held = False
        self._asked = False
        """True until an order to register is followed."""
        self.first = asyncio.Event()
        """Set once the plugin has been registered."""
        self._overrides = Register()

    def hold(self) -> None:
        """Stop registering until `register_again`."""
        self._held = True

    def register_again(self, overrides: Register) -> None:
        """Serve and register again; a registration with overrides is not retried."""
        self._held, self._registered_at, self._overrides, self._asked = False, None, overrides, True
        if self._changes is not None:
            self._changes.wake()

    async def run(self) -> None:
        """Register now and after each restart of the node. Never ends; idle while registered."""
        while not self._options.directory.is_dir():
            self._log_once(f"waiting for {self._options.directory}")
            await asyncio.sleep(RETRY_MOST)
        changes = self._changes = changes_in(self._options.directory)
        try:
            while True:
                if await self._reconcile():
                    await changes.wait(None)
                else:
                    await self._back_off(changes)
        finally:
            changes.close()

    async def _reconcile(self) -> bool:
        """Register if needed; return True if there is nothing to do until the directory changes."""
        if self._held:
            return True
        node = self._node()
        if node is None:
            self._log_once(f"waiting for {self._options.kubelet_socket}")
            return True
        if node == self._registered_at:
            return True
        return await self._register(node)

    async def _register(self, node: tuple[int, int]) -> bool:
        await self._server.start()
        overrides, self._overrides, self._asked = self._overrides, Register(), False
        request = pb.RegisterRequest(
            version=overrides.version or VERSION,
            endpoint=overrides.endpoint or self._options.endpoint,
            resource_name=overrides.resource or self._options.resource,
        )
        try:
            async with unix_channel(self._options.kubelet_socket) as channel:
                await REGISTER.unary(channel)(request, timeout=REGISTER_TIMEOUT)
        except grpc.aio.AioRpcError as error:
            self._log_once(f"registration failed: {error.details()}")
            self._held = overrides != Register()
            return self._held
        self._registered_at, self._attempts, self._last_error = node, 0, ""
        self.first.set()
        self._say(f"registered {request.resource_name} with {len(self._server.devices)} devices")
        return True

    def _node(self) -> tuple[int, int] | None:
        """Identify this kubelet.sock by inode and ctime, since an inode number may be reused."""
        try:
            status = self._options.kubelet_socket.stat()
        except OSError:
            return None
        return status.st_ino, status.st_ctime_ns

    async def _back_off(self, changes: DirectoryChanges) -> None:
        """Wait for the next attempt, or another kubelet: each attempt makes a socket, and so changes the directory."""
        self._attempts += 1
        node = self._node()
        deadline = time.monotonic() + backoff_delay(self._attempts, RETRY_FIRST, RETRY_MOST)
        while (left := deadline - time.monotonic()) > 0 and self._node() == node and not self._asked:
            await changes.wait(left)

    def _log_once(self, line: str) -> None:
        """Log an error once, not once per attempt."""
        if line != self._last_error:
            self._last_error = line
            self._say(line)


@dataclass(frozen=True)
class ScriptPlayer:
    """Perform each step of the script at its time, on the parts of a plugin, beginning with the first registration."""

    script: PluginScript
    server: ScriptedServer
    registration: Registration
    say: Callable[[str], None]

    async def run(self) -> int:
        """Play the script; return only with the exit code of a step."""
        await self.registration.first.wait()
        return await play(Timeline(self.script.steps, self.script.repeat), self._perform, self.say)

    async def _perform(self, step: PluginStep) -> None:
        self.server.perform(step)
        await self._reconnect(step)

    async def die_in_calls(self) -> None:
        """Crash when a call's fault says so. Never ends."""
        await die_in_calls(
            self.server.faults,
            lambda: self._reconnect(PluginStep(at=Seconds(0), crash=True)),
            lambda: self._reconnect(PluginStep(at=Seconds(0), register=True)),
        )

    async def _reconnect(self, step: PluginStep) -> None:
        """Apply the part of a step that concerns sockets and registration."""
        if step.stop or step.crash:
            self.registration.hold()
            self.say("stops" if step.stop else "crashes")
        if step.stop:
            await self.server.stop()
        if step.crash:
            await self.server.cut()
        if step.register:
            self.registration.register_again(step.register if isinstance(step.register, Register) else Register())


async def run_plugin(options: PluginOptions, script: PluginScript, say: Callable[[str], None]) -> int:
    """Run until a signal or a step with `exit`, remove the socket and return the exit code."""
    server = ScriptedServer(options, _devices(options, script), say, script)
    registration = Registration(options, server, say)
    player = ScriptPlayer(script, server, registration, say)
    ends = [awaited(signalled())]
    tasks: list[asyncio.Task[None]] = [awaited(registration.run()), awaited(player.die_in_calls())]
    if script.steps:
        ends.append(awaited(player.run()))
    if options.health_file is not None:
        followed = follow_file(options.health_file, lambda text: server.set_health(parse_health(text)), say)
        tasks.append(awaited(followed))
    code = await until_one_ends(ends, tasks, server.stop)
    say("stopped")
    return code


def _devices(options: PluginOptions, script: PluginScript) -> PluginDevices:
    given = script.devices
    return PluginDevices(options.name, numbered(options.name, given, script.numa) if isinstance(given, int) else given)

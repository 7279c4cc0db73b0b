"""Plugins register by a socket in plugins_registry/, over real sockets (scenarios S10 and S43 of the device facts)."""

import asyncio
import logging
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from actors.devices.model.errors import RegistrationRejected
from actors.devices.watcher import registrar
from actors.devices.watcher.watcher import MAX_CONCURRENT, MAX_RETRIES, PluginWatcher, WatcherOptions
from protocols.wire.plugins import DEVICE_PLUGIN, DRA_PLUGIN
from tests.support.device_node import running_node, until
from tests.support.stub_driver import StubDriver


class Taker:
    """Takes every plugin in, and notes it."""

    def __init__(self) -> None:
        self.here: list[tuple[str, ...]] = []
        self.notes: list[str] = []
        self.refuse = ""
        self.bug: Exception | None = None
        """Raised once."""

    def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        if self.refuse:
            raise RegistrationRejected(self.refuse)

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        bug, self.bug = self.bug, None
        if bug is not None:
            raise bug
        self.here.append((name, endpoint, *versions))
        self.notes.append("on")

    async def deregister(self, name: str, endpoint: str) -> None:
        self.here = [item for item in self.here if item[:2] != (name, endpoint)]
        self.notes.append("off")


class Lab:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.taker = Taker()
        self.registry = CollectorRegistry()
        self.drivers: list[StubDriver] = []
        self.watcher = PluginWatcher(
            WatcherOptions(
                root / "plugins_registry", {DRA_PLUGIN: self.taker}, self.registry, logging.getLogger("watcher")
            )
        )

    def driver(self, name: str = "gpu.example.com") -> StubDriver:
        """Stopped with the lab."""
        self.drivers.append(StubDriver(self.root, name))
        return self.drivers[-1]


@asynccontextmanager
async def running_watcher() -> AsyncIterator[Lab]:
    root = Path(tempfile.mkdtemp(prefix="np", dir="/tmp"))
    made = Lab(root)
    task = asyncio.create_task(made.watcher.run())
    try:
        async with asyncio.timeout(150):
            await until("the directory", (root / "plugins_registry").is_dir)
            yield made
    finally:
        await asyncio.gather(*(driver.stop() for driver in made.drivers))
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        shutil.rmtree(root)


async def test_a_driver_comes_and_goes_with_its_socket() -> None:
    async with running_watcher() as lab:
        driver = await lab.driver().start()
        await until("registered", lambda: driver.told and driver.told[-1].plugin_registered)
        assert lab.taker.here == [(driver.name, str(driver.socket), "v1.DRAPlugin")]
        for state in ("actual_state_of_world", "desired_state_of_world"):
            line = f'plugin_manager_total_plugins{{socket_path="{driver.registrar}",state="{state}"}} 1.0'
            await until(line, lambda: line in generate_latest(lab.registry).decode())  # noqa: B023 # used at once
        await driver.stop()
        await until("deregistered", lambda: lab.taker.here == [])


async def test_a_socket_in_a_new_folder_an_empty_endpoint_and_a_restart_on_the_same_path() -> None:
    async with running_watcher() as lab:
        driver = lab.driver()
        driver.registrar = lab.root / "plugins_registry" / "some" / "where" / "reg.sock"
        driver.info.endpoint = ""
        await driver.register()
        await until("registered", lambda: lab.taker.here)
        assert lab.taker.here[0][1] == str(driver.registrar)
        await driver.stop()
        await driver.register()
        await until("registered anew", lambda: lab.taker.notes == ["on", "off", "on"])
        driver.registrar.rename(lab.root / "away.sock")
        await until("a socket that was renamed away is gone too", lambda: lab.taker.here == [])


@pytest.mark.scenario("S43")
async def test_what_fails_at_first_is_registered_in_the_end() -> None:
    """S43: GetInfo fails, then NotifyRegistrationStatus, then all is well."""

    async with running_watcher() as lab:
        driver = lab.driver()
        driver.fail["info"] = "not yet"
        await driver.register()
        await until("asked", lambda: driver.called("info"))
        driver.fail = {"notify": "did not hear"}
        await until("taken and given back", lambda: lab.taker.notes[:2] == ["on", "off"])
        driver.fail.clear()
        await until("registered", lambda: lab.taker.here and driver.told[-1].plugin_registered)


async def test_rejections_have_upstreams_texts(caplog: pytest.LogCaptureFixture) -> None:
    async with running_watcher() as lab:
        lab.taker.refuse = "not this one"
        driver = lab.driver()
        await driver.register()
        other = lab.driver("csi.example.com")
        other.info.type = "CSIPlugin"
        other.fail["notify"] = "a driver that was refused says no to that"
        await other.register()
        lost = lab.driver("lost.example.com")
        lost.info.endpoint = "relative.sock"
        await lost.register()
        await until("told", lambda: driver.told and other.told and lost.told)
        assert driver.told[0].error == "RegisterPlugin error -- plugin validation failed with err: not this one"
        assert not driver.told[0].plugin_registered
        assert other.told[0].error == (
            "RegisterPlugin error -- no handler registered for plugin type: CSIPlugin at socket "
            f"{lab.root}/plugins_registry/csi.example.com-reg.sock"
        )
        assert "absolute path" in lost.told[0].error


async def test_rubbish_in_the_directory_keeps_nobody_out() -> None:
    async with running_watcher() as lab:
        registry = lab.root / "plugins_registry"
        (registry / "folder.sock").mkdir()
        (registry / "file.sock").write_text("rubbish")
        for number in range(200):
            with socket.socket(socket.AF_UNIX) as killed:
                killed.bind(str(registry / f"a{number}.sock"))
        dead = [await asyncio.start_unix_server(lambda r, w: w.close(), registry / f"dead{n}.sock") for n in range(5)]
        await lab.driver().start()
        await until("registered", lambda: lab.taker.here)
        for server in dead:
            server.close()


async def test_sockets_that_never_answer_keep_no_other_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    connected = set[asyncio.StreamWriter]()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.add(writer)
        await reader.read()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        connected.remove(writer)

    async with running_watcher() as lab:
        leaver = await lab.driver("leaver.example.com").start()
        await until("registered", lambda: [name for name, *_ in lab.taker.here] == [leaver.name])
        monkeypatch.setattr(registrar, "FIRST_DIAL_S", 0.2)
        monkeypatch.setattr(registrar, "DIAL_S", 0.2)
        paths = [lab.root / "plugins_registry" / f"{number}.sock" for number in range(MAX_CONCURRENT + MAX_RETRIES)]
        servers = [await asyncio.start_unix_server(silent, path) for path in paths]
        await until("each has failed", lambda: caplog.text.count("plugin registration failed socket=") >= len(paths))
        monkeypatch.setattr(registrar, "DIAL_S", 1000.0)
        await until("they are tried again", lambda: len(connected) >= MAX_RETRIES)
        await asyncio.sleep(1)  # all that may be tried at once are
        await until("those that were given up are closed", lambda: len(connected) == MAX_RETRIES, 15)
        driver = await lab.driver().start()
        await leaver.stop()
        await until("only the new one", lambda: [name for name, *_ in lab.taker.here] == [driver.name])
    for server in servers:
        server.close()
    for writer in connected:
        writer.close()  # gRPC closes its end of a channel that was connecting after DIAL_S
    await until("no connection is left", lambda: not connected)


async def test_hundreds_of_silent_sockets_leave_room_for_a_new_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registrar, "FIRST_DIAL_S", 0.1)
    monkeypatch.setattr(registrar, "DIAL_S", 1000.0)
    async with running_watcher() as lab:
        silent = [socket.socket(socket.AF_UNIX) for _ in range(300)]
        for number, listening in enumerate(silent):
            listening.bind(str(lab.root / "plugins_registry" / f"{number}.sock"))
            listening.listen()
        driver = await lab.driver().start()
        await until("registered", lambda: [name for name, *_ in lab.taker.here] == [driver.name])
    for listening in silent:
        listening.close()


async def test_slow_driver_is_registered_by_the_second_try_without_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registrar, "FIRST_DIAL_S", 0.0)
    async with running_watcher() as lab:
        driver = await lab.driver().start()
        await until("registered", lambda: [name for name, *_ in lab.taker.here] == [driver.name])
    assert "registration failed" not in caplog.text


async def test_a_device_plugin_may_come_by_the_same_way() -> None:
    """S10, with the device manager as a process."""

    async with running_node(actors=("devices",)) as node:
        plugin = node.stub().with_devices("a", "b")
        await plugin.serve()
        registrar = StubDriver(node.layout.kubelet)
        registrar.info.type, registrar.info.name = DEVICE_PLUGIN, plugin.resource
        registrar.info.endpoint = str(plugin.directory / plugin.endpoint)
        registrar.info.supported_versions[:] = ["v1beta2"]
        await registrar.register()
        await until("told", lambda: registrar.told)
        assert registrar.told[0].error.endswith(
            "manager version, v1beta1, is not among plugin supported versions [v1beta2]"
        )
        registrar.info.supported_versions[:] = ["v1beta1"]
        await node.settled(2, 2)
        await until("told", lambda: registrar.told[-1].plugin_registered)
        assert [name for name, _ in plugin.calls] == ["options", "list"]
        await registrar.stop()
        await node.settled(0, 2)


async def test_registration_that_breaks_is_reported_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """Its path stayed busy for ever."""
    async with running_watcher() as lab:
        lab.taker.bug = ZeroDivisionError("a bug")
        driver = await lab.driver().start()
        await until("registered", lambda: [name for name, *_ in lab.taker.here] == [driver.name])
        assert "task plugin registration register gpu.example.com-reg.sock failed: ZeroDivisionError" in caplog.text

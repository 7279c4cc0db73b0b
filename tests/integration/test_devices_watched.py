"""Device plugins found by the watcher of plugins_registry: the entry it calls, over a real socket (scenario S10)."""

import logging
import tempfile
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from actors.devices.model.errors import PluginUnreachable, RegistrationRejected
from actors.devices.model.metrics import DeviceMetrics
from actors.devices.model.types import CallDeadlines
from actors.devices.plugins.connections import PluginConnections, PluginConnectionsOptions
from actors.devices.plugins.registration import RegistryHandler
from protocols.lifecycle.devices.inventory import Inventory
from protocols.messages.devices import HEALTHY, UNKNOWN
from tests.support.device_node import RESOURCE, until
from tests.support.stub_plugin import StubPlugin


@pytest.mark.scenario("S10")
async def test_a_watched_socket_registers_and_its_removal_deregisters() -> None:
    with tempfile.TemporaryDirectory(prefix="np", dir="/tmp") as name:
        directory = Path(name)
        inventory = Inventory()
        watched = RegistryHandler(PluginConnections(options(directory, inventory)))
        stub = StubPlugin(directory, endpoint="registry.sock").with_devices("a", "b")
        await stub.serve()
        endpoint = str(directory / "registry.sock")
        await watched.register(RESOURCE, endpoint, ["v1beta1", "v2"])
        await until("two devices", lambda: inventory.healthy(RESOURCE) == ["a", "b"])
        await watched.deregister(RESOURCE, endpoint)
        assert {device.health for device in inventory.view(RESOURCE).devices} == {UNKNOWN}
        await watched.register(RESOURCE, endpoint, ["v1beta1"])
        await until("back", lambda: {device.health for device in inventory.view(RESOURCE).devices} == {HEALTHY})
        await watched.deregister(RESOURCE, endpoint)
        await stub.stop()


@pytest.mark.scenario("S10")
async def test_rejected_sockets_have_upstreams_texts() -> None:
    with tempfile.TemporaryDirectory(prefix="np", dir="/tmp") as name:
        directory = Path(name)
        watched = RegistryHandler(PluginConnections(options(directory, Inventory())))
        with pytest.raises(
            RegistrationRejected, match=r"manager version, v1beta1, is not among plugin supported versions \[v1 v2\]"
        ):
            await watched.register(RESOURCE, str(directory / "a.sock"), ["v1", "v2"])
        with pytest.raises(
            RegistrationRejected, match='invalid name of device plugin socket: the ResourceName "gpu" is invalid'
        ):
            await watched.register("gpu", str(directory / "a.sock"), ["v1beta1"])
        with pytest.raises(RegistrationRejected, match="must be an absolute path"):
            await watched.register(RESOURCE, "a.sock", ["v1beta1"])
        with pytest.raises(PluginUnreachable, match="no answer at"):
            await watched.register(RESOURCE, str(directory / "a.sock"), ["v1beta1"])


def options(directory: Path, inventory: Inventory) -> PluginConnectionsOptions:
    return PluginConnectionsOptions(
        directory=directory,
        inventory=inventory,
        limits=CallDeadlines(dial=1.0),
        metrics=DeviceMetrics(CollectorRegistry()),
        changed=lambda resource: None,
        registered=lambda resource: None,
        log=logging.getLogger("test"),
    )

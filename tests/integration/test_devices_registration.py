"""Plugins come, change and go, over real sockets (scenarios S01-S09 of the device facts)."""

import asyncio
import contextlib
import os
import stat

import grpc
import pytest

from tests.support.device_node import RESOURCE, DeviceNode, running_node, until
from tests.support.stub_plugin import device

ONLY = {"actors": ("devices",)}


@pytest.mark.scenario("S01")
async def test_register_makes_capacity_with_exactly_two_calls() -> None:
    async with running_node(**ONLY) as node:
        plugin = node.stub().with_devices("a", "b")
        await plugin.start()
        await node.settled(2, 2)
        assert [name for name, _ in plugin.calls] == ["options", "list"]


@pytest.mark.scenario("S02")
async def test_failing_options_refuse_the_registration() -> None:
    async with running_node(**ONLY) as node:
        plugin = node.stub().with_devices("a")
        plugin.fail["options"] = "no such luck"
        await plugin.serve()
        with pytest.raises(grpc.aio.AioRpcError, match=r"failed to get device plugin options.*no such luck"):
            await plugin.register()
        assert plugin.called("list") == []
        assert node.figures() is None


@pytest.mark.scenario("S03")
async def test_failing_list_leaves_the_keys_at_zero_and_is_not_retried() -> None:
    async with running_node(**ONLY) as node:
        plugin = node.stub().with_devices("a")
        plugin.fail["list"] = "broken"
        await plugin.start()
        await node.settled(0, 0)
        await asyncio.sleep(0.5)
        assert [name for name, _ in plugin.calls] == ["options", "list"]


async def test_a_plugin_that_stops_takes_allocatable_not_capacity() -> None:
    async with running_node(**ONLY) as node:
        plugin = node.stub().with_devices("a", "b")
        await plugin.start()
        await node.settled(2, 2)
        await plugin.stop()
        await node.settled(0, 2)


@pytest.mark.scenario("S05")
async def test_allocatable_follows_health() -> None:
    async with running_node(**ONLY) as node:
        plugin = node.stub().with_devices("a", "b", "c", "d")
        await plugin.start()
        for change, healthy in (
            ({"a": "Unhealthy"}, 3),
            ({"b": "gone mad"}, 2),
            ({"a": "Healthy"}, 3),
            ({"b": "Healthy"}, 4),
        ):
            plugin.set_health(**change)
            await node.settled(healthy, 4)


@pytest.mark.scenario("S07")
async def test_bad_registrations_are_refused_and_leave_nothing() -> None:
    names = ["cpu", "kubernetes.io/x", "a.kubernetes.io/x", "requests.foo/x", "noslash", f"example.com/{'x' * 64}"]

    async with running_node(**ONLY) as node:
        plugin = await node.stub().with_devices("a").start()
        for name in names:
            with pytest.raises(grpc.aio.AioRpcError, match=f'the ResourceName "{name}" is invalid'):
                await plugin.register(resource=name)
        with pytest.raises(grpc.aio.AioRpcError, match='requested API version "v1" is not supported by kubelet') as old:
            await plugin.register(version="v1")
        assert old.value.code() is grpc.StatusCode.UNKNOWN
        for endpoint in ("../x.sock", "a/b", "..", "kubelet.sock"):
            with pytest.raises(grpc.aio.AioRpcError, match=r"endpoint .* is invalid"):
                await plugin.register(endpoint=endpoint)
        assert set(node.resources.items) == {RESOURCE}
        assert await metric(node, "kubelet_device_plugin_registration_total") == {RESOURCE: 1.0}


@pytest.mark.scenario("S08")
async def test_a_rolling_update_shows_no_dip() -> None:
    async with running_node(**ONLY) as node:
        old = await node.stub(endpoint="one.sock").with_devices("a").start()
        await node.settled(1, 1)
        await node.stub(endpoint="two.sock").with_devices("a", "b").start()
        await node.settled(2, 2)
        await old.stop()
        await asyncio.sleep(0.2)
        assert node.figures() == (2, 2)


async def test_end_of_newer_instance_falls_back_to_older_one() -> None:
    async with running_node(**ONLY) as node:
        old = await node.stub(endpoint="one.sock").with_devices("a").start()
        await node.settled(1, 1)
        new = await node.stub(endpoint="two.sock").with_devices("a", "b").start()
        await node.settled(2, 2)
        old.set_health(a="Unhealthy")
        await new.stop()
        await node.settled(0, 1)
        old.set_health(a="Healthy")
        await node.settled(1, 1)
        await node.admit("u1", main={RESOURCE: 1})
        assert len(old.called("allocate")) == 1
        await old.stop()
        await node.settled(0, 1)


@pytest.mark.scenario("S09")
async def test_start_removes_sockets_only_and_the_plugin_comes_back() -> None:
    async with running_node(**ONLY) as node:
        (node.layout.device_plugins / "kubelet_internal_checkpoint").write_text("{}")
        (node.layout.device_plugins / "sub").mkdir()
        await node.stub(endpoint="foreign.sock").with_devices("a").start()
        node.plugin("--resource", "example.com/nic", "--devices", "3")
        await node.settled(3, 3, "example.com/nic")
        await node.restart("devices")
        assert node.figures(RESOURCE) == (0, 0)
        await node.settled(3, 3, "example.com/nic")
        names = {path.name for path in node.layout.device_plugins.iterdir()}
        assert {"kubelet_internal_checkpoint", "sub", "kubelet.sock"} < names
        assert "foreign.sock" not in names


async def test_socket_and_directory_are_private() -> None:
    async with running_node(**ONLY) as node:
        assert stat.S_IMODE(os.stat(node.layout.registration_socket).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(node.layout.device_plugins).st_mode) == 0o750


async def test_garbage_on_the_socket_disturbs_nobody() -> None:
    async with running_node(**ONLY) as node:
        plugin = await node.stub().with_devices("a").start()
        for garbage in (b"\0" * 1000, b"GET / HTTP/1.1\r\n\r\n", os.urandom(100_000)):
            reader, writer = await asyncio.open_unix_connection(str(node.layout.registration_socket))
            with contextlib.suppress(ConnectionError):
                writer.write(garbage)
                writer.write_eof()
                await asyncio.wait_for(reader.read(), 60)
            writer.close()
        plugin.devices.append(device("b"))
        plugin.change()
        await node.settled(2, 2)
        await plugin.register()


async def test_a_list_over_the_limit_ends_that_plugin_alone() -> None:
    async with running_node(**ONLY) as node:
        await node.stub(endpoint="good.sock").with_devices("a").start()
        big = node.stub("example.com/big", "big.sock")
        big.devices = [device("x" * (5 << 20))]
        await big.start()
        await until("a log line", lambda: "code = ResourceExhausted" in node.log("devices"))
        await node.settled(0, 0, "example.com/big")
        await node.settled(1, 1)


async def metric(node: DeviceNode, name: str) -> dict[str, float]:
    """Value by resource_name."""
    from prometheus_client.parser import text_string_to_metric_families

    from protocols.messages.supervisor import METRICS, Empty, MetricsText

    page = await node.bus.call("devices", METRICS, Empty(), MetricsText)
    samples = [sample for family in text_string_to_metric_families(page.text) for sample in family.samples]
    return {sample.labels["resource_name"]: sample.value for sample in samples if sample.name == name}

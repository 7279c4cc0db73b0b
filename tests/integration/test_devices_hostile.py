"""Plugins that mean harm, or whose authors slipped: each ends alone, and the manager goes on for the others."""

import asyncio
import os
import socket

import grpc
import grpc.aio
import pytest

from protocols.bus import BusError, FailedPrecondition
from protocols.messages.devices import AdmitPod, ContainerRequest
from protocols.messages.trace import SPANS, SpanBatch, SpanQuery
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from protocols.wire.methods import MAX_REQUEST, unix_channel
from protocols.wire.plugins import REGISTER
from tests.support.device_node import RESOURCE, DeviceNode, running_node, until
from tests.support.raw_plugin import RawPlugin
from tests.support.stub_plugin import StubPlugin, device

ONLY = {"actors": ("devices",)}
BAD = "example.com/bad"


async def well(node: DeviceNode, good: StubPlugin) -> None:
    """Everybody else is served as ever."""
    have = len(good.devices)
    good.devices.append(device(f"more-{have}"))
    good.change()
    await node.settled(have + 1, have + 1)
    # A uid is never used again: a release that the bus repeats would end the admission of the next.
    uid = f"somebody-{have}"
    await node.admit(uid, main={RESOURCE: 1})
    await node.release(uid)


async def test_lists_that_no_machine_has() -> None:
    """100,000 devices, an id of a megabyte, 5 MiB, doubles, empty ids, and NUMA nodes that no kernel has."""

    async with running_node(**ONLY) as node:
        good = await node.stub().with_devices("a").start()
        bad = node.stub(BAD, "bad.sock")
        for devices, said in (
            ([device(str(number)) for number in range(100_000)], "it lists 100000 devices, the limit is 20000"),
            ([device("x" * 2000)], "whose id has 2000 characters, the limit is 1024"),
            ([device("x" * (5 << 20))], "Received message larger than max"),
        ):
            bad.devices = devices
            await bad.start()
            await until(said, lambda: said in node.log("devices"))  # noqa: B023 # used at once
            await until("an end", lambda: node.figures(BAD) == (0, 0))
            await bad.stop()
        bad.devices = [
            device("a", numa=3),
            device("a", "Unhealthy"),
            device(""),
            device("a", numa=1 << 40),
            device("b", numa=-7),
        ]
        await bad.start()
        await node.settled(2, 2, BAD)
        assert [item.numa for item in node.resources.items[BAD].devices] == [(), ()]
        await well(node, good)


async def test_a_plugin_that_talks_without_end_leaves_time_for_others() -> None:
    async with running_node(**ONLY) as node:
        good = await node.stub().with_devices("a").start()
        endless = RawPlugin(node.layout.device_plugins / "endless.sock")
        endless.lists = [
            pb.ListAndWatchResponse(devices=[device(f"{turn}-{at}") for at in range(500)]).SerializeToString()
            for turn in range(2)
        ]
        endless.forever = True
        await endless.serve()
        await good.register(resource=BAD, endpoint="endless.sock")
        await until("its devices", lambda: (node.figures(BAD) or (0, 0))[1] == 500)
        await well(node, good)
        await endless.stop()
        await until("gone", lambda: node.figures(BAD) == (0, 500))


async def errors_in_traces(node: DeviceNode, step: str) -> set[str]:
    batch = await node.bus.call("devices", SPANS, SpanQuery(text=step), SpanBatch)
    return {span.attributes.get("error", "") for span in batch.spans if span.name == step}


async def test_answers_that_are_no_messages() -> None:
    """Bytes that do not parse, text that is no text, no container, and an answer of two megabytes."""

    async with running_node(**ONLY) as node:
        good = await node.stub().with_devices("a").start()
        raw = RawPlugin(node.layout.device_plugins / "raw.sock")
        raw.lists = [pb.ListAndWatchResponse(devices=[device("x")]).SerializeToString()]
        await raw.serve()
        await good.register(resource=BAD, endpoint="raw.sock")
        await node.settled(1, 1, BAD)
        large = pb.ContainerAllocateResponse(envs={"X": "y" * (2 << 20)})
        for answer in (
            b"\xff\xff\xff",
            b"\n\x06\n\x04\n\x02\n\x00\xff",
            pb.AllocateResponse().SerializeToString(),
            pb.AllocateResponse(container_responses=[large]).SerializeToString(),
        ):
            raw.answer = answer
            with pytest.raises(FailedPrecondition, match="Allocate failed due to"):
                await node.admit("p", main={BAD: 1})
            await node.holds({})
        text = "rpc error: code = Internal desc = the reply to Allocate is not a valid AllocateResponse"
        assert text in await errors_in_traces(node, "Allocate")
        raw.answer = pb.AllocateResponse(container_responses=[pb.ContainerAllocateResponse()]).SerializeToString()
        await node.admit("p", main={BAD: 1})
        await raw.stop()
        raw.lists = [b"\xff\xff\xff"]
        await raw.serve()
        await good.register(resource=BAD, endpoint="raw.sock")
        await until("its end", lambda: node.figures(BAD) == (0, 1))
        await raw.stop()
        await well(node, good)


async def test_endpoints_that_are_no_plugins() -> None:
    """A directory, a file, a dead socket's path that is too long, names with slashes: refused at once."""

    async with running_node(**ONLY) as node:
        good = await node.stub().with_devices("a").start()
        (node.layout.device_plugins / "directory.sock").mkdir()
        (node.layout.device_plugins / "file.sock").write_text("")
        await until("the first checkpoint", (node.layout.device_plugins / "kubelet_internal_checkpoint").exists)
        for endpoint, said in (
            ("directory.sock", "directory.sock is not a socket"),
            ("file.sock", "file.sock is not a socket"),
            ("kubelet_internal_checkpoint", "kubelet_internal_checkpoint is not a socket"),
            ("x" * 120, "is too long for the path of a socket"),
            ("a/b.sock", "must be the name of the plugin's socket"),
        ):
            with pytest.raises(grpc.aio.AioRpcError, match=said) as refused:
                await good.register(resource=BAD, endpoint=endpoint)
            assert refused.value.code() is grpc.StatusCode.UNKNOWN
        assert node.figures(BAD) is None
        await well(node, good)


async def test_half_open_plugins_and_a_crowd_of_registrations_hold_up_nobody() -> None:
    """A socket that accepts and says nothing: who registers it waits, and the others do not."""

    async with running_node(**ONLY) as node:
        good = await node.stub().with_devices("a").start()
        path = node.layout.device_plugins / "silent.sock"
        silent = socket.socket(socket.AF_UNIX)
        silent.bind(str(path))
        silent.listen(500)
        async with unix_channel(node.layout.registration_socket) as channel:
            call = REGISTER.unary(channel)

            async def register(number: int) -> grpc.StatusCode:
                request = pb.RegisterRequest(
                    version="v1beta1", endpoint="silent.sock", resource_name=f"example.com/r{number}"
                )
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await call(request, timeout=2)
                return refused.value.code()

            with pytest.raises(grpc.aio.AioRpcError, match="Received message larger than max"):
                await call(pb.RegisterRequest(resource_name="x" * MAX_REQUEST))
            crowd = asyncio.gather(*map(register, range(150)))
            await asyncio.sleep(0.1)
            await well(node, good)
            assert set(await crowd) <= {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED}
        silent.close()
        path.unlink()

        async def registered() -> bool:
            """The manager gives the places of callers that left free as soon as it hears of it."""
            try:
                await good.register()
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
                return False
            return True

        await until("a place for the next one", registered)
        await well(node, good)
        assert set(node.resources.items) == {RESOURCE}


async def test_registering_again_and_again_piles_nothing_up() -> None:
    async with running_node(**ONLY) as node:
        good = await node.stub().with_devices("a").start()
        for _ in range(30):
            await good.register()  # one that another follows at once may never be asked for its list
        pid = node.processes["devices"].pid
        await until("old streams ended", lambda: len(os.listdir(f"/proc/{pid}/fd")) < 60)
        await well(node, good)


@pytest.mark.scenario("S17")
async def test_contradicting_answers_are_reported_and_the_first_resource_wins() -> None:
    async with running_node(**ONLY) as node:
        for resource, word in (("example.com/a", "first"), ("example.com/b", "second")):
            plugin = node.stub(resource, f"{word}.sock").with_devices("x")
            plugin.answer = pb.ContainerAllocateResponse(
                envs={"SAME": word, "EQUAL": "1"},
                mounts=[pb.Mount(container_path="/c", host_path=f"/{word}")],
                devices=[pb.DeviceSpec(container_path="/dev/c", host_path=f"/dev/{word}")],
                annotations={"note": word},
                cdi_devices=[pb.CDIDevice(name="example.com/gpu=both")],
            )
            await plugin.start()
            await node.settled(1, 1, resource)
        request = ContainerRequest("main", resources={"example.com/b": 1, "example.com/a": 1})
        admitted = await node.admit_pod(AdmitPod("p", "default", "p", (request,)))
        grant = admitted.grants["main"]
        assert grant.envs == {"SAME": "first", "EQUAL": "1"}
        assert [item.host_path for item in grant.mounts] == ["/first"]
        assert [item.host_path for item in grant.devices] == ["/dev/first"]
        assert (grant.annotations, grant.cdi_devices) == ({"note": "first"}, ("example.com/gpu=both",))
        assert sorted(admitted.warnings) == [
            f"container main: {what} of example.com/b conflicts with that of another resource, which is used: {key}"
            for what, key in (
                ("annotation", "note"),
                ("device", "/dev/c"),
                ("environment variable", "SAME"),
                ("mount", "/c"),
            )
        ]


async def test_pre_start_of_a_pod_nobody_admitted_is_refused() -> None:
    async with running_node(**ONLY) as node:
        plugin = node.stub().with_devices("a")
        plugin.options = pb.DevicePluginOptions(pre_start_required=True)
        await plugin.start()
        await node.settled(1, 1)
        await node.admit("p1", main={RESOURCE: 1})
        words = f"no devices found allocated in local cache for pod p1, container other, resource {RESOURCE}"
        with pytest.raises(BusError, match=words):
            await node.pre_start("p1", "other", RESOURCE, "example.com/cluster-wide")
        await node.pre_start("p1", "main", RESOURCE)
        assert len(plugin.called("pre_start")) == 1
        await plugin.stop()
        await node.settled(0, 1)
        with pytest.raises(BusError, match=f"endpoint of {RESOURCE} has been stopped"):
            await node.pre_start("p1", "main")

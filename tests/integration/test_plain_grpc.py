"""A client that has our .proto file and gRPC, and nothing else of ours: what any language's generator would make."""

import asyncio
import shutil
import sys
from pathlib import Path

from protocols.bus import Event, Op
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, PodAllocation
from tests.support.front_door import Door, running_front_door

PROTO = Path(__file__).parents[2] / "protocols" / "wire" / "podresources_v1.proto"
CLIENT = """
import sys
import grpc
import podresources_v1_pb2 as v1
import podresources_v1_pb2_grpc as api

with grpc.insecure_channel("unix:" + sys.argv[1]) as channel:
    stub = api.PodResourcesListerStub(channel)
    watch = stub.ListAndWatch(v1.ListAndWatchPodResourcesRequest(), timeout=90)
    watch.initial_metadata()
    listed = stub.List(v1.ListPodResourcesRequest(), timeout=60)
    print("listed", [pod.name for pod in listed.pod_resources], flush=True)
    for event in watch:
        [pod] = event.pod_resources
        ids = [id for item in pod.containers for entry in item.devices for id in entry.device_ids]
        print(v1.ListAndWatchPodResourcesResponse.Action.Name(event.action), event.uid, pod.name, ids, flush=True)
        if event.action == v1.ListAndWatchPodResourcesResponse.DELETED:
            break
"""


async def test_the_proto_alone_is_enough() -> None:
    async with running_front_door() as door:
        shutil.copy(PROTO, door.directory / PROTO.name)
        (door.directory / "client.py").write_text(CLIENT)
        await run(door, "-m", "grpc_tools.protoc", "-I.", "--python_out=.", "--grpc_python_out=.", PROTO.name)
        change(door, "a", 2)
        client = await start(door, "client.py", str(door.socket))
        assert client.stdout
        assert await asyncio.wait_for(client.stdout.readline(), 60) == b"listed ['a']\n"
        change(door, "b", 3, "g0")
        change(door, "b", 4, gone=True)
        told = await asyncio.wait_for(client.stdout.read(), 60)
        assert told == b"ADDED uid-b b ['g0']\nDELETED uid-b b []\n"
        assert await client.wait() == 0


def change(door: Door, name: str, mark: int, *ids: str, gone: bool = False) -> None:
    devices = tuple(AllocatedDevice("example.com/gpu", id) for id in ids)
    value = PodAllocation(f"uid-{name}", "default", name, (ContainerAllocation("main", devices=devices),))
    door.pods.on_event(Event(Op.DELETE if gone else Op.UPSERT, value.uid, None if gone else value, mark=mark))


async def start(door: Door, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=door.directory, stdout=asyncio.subprocess.PIPE
    )


async def run(door: Door, *words: str) -> None:
    process = await start(door, *words)
    await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0

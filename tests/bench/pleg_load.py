"""Load for the pleg benches, a process of its own: hollow containers that end by themselves and are removed.

`python -m tests.bench.pleg_load SOCKET PODS PER_SECOND SECONDS` (PER_SECOND 0: as fast as it goes). Prints the
number of containers made; each gives four events: created, started, stopped, deleted.
"""

import asyncio
import sys
import time

import grpc.aio
import uvloop

from protocols.wire import cri_pb2 as pb
from tests.support.runtime import OPTIONS

LIFE = "20ms"
AT_ONCE = 32


class Load:
    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel
        self.made = 0

    async def call(self, method: str, request: bytes) -> bytes:
        stub: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(
            f"/runtime.v1.RuntimeService/{method}"
        )
        return bytes(await stub(request, timeout=30))

    async def sandbox(self, number: int) -> str:
        metadata = pb.PodSandboxMetadata(name=f"b{number}", uid=f"b{number}", namespace="default")
        config = pb.PodSandboxConfig(metadata=metadata, log_directory="/tmp")
        reply = await self.call("RunPodSandbox", pb.RunPodSandboxRequest(config=config).SerializeToString())
        return pb.RunPodSandboxResponse.FromString(reply).pod_sandbox_id

    async def container(self, sandbox: str, life: str = LIFE) -> str:
        self.made += 1
        config = pb.ContainerConfig(
            metadata=pb.ContainerMetadata(name=f"c{self.made}"),
            image=pb.ImageSpec(image="hollow/bench"),
            annotations={"nodeplane.dev/hollow-duration": life} if life else {},
        )
        request = pb.CreateContainerRequest(pod_sandbox_id=sandbox, config=config).SerializeToString()
        id_ = pb.CreateContainerResponse.FromString(await self.call("CreateContainer", request)).container_id
        await self.call("StartContainer", pb.StartContainerRequest(container_id=id_).SerializeToString())
        return id_

    async def life(self, sandbox: str) -> None:
        id_ = await self.container(sandbox)
        await asyncio.sleep(0.03)
        await self.call("RemoveContainer", pb.RemoveContainerRequest(container_id=id_).SerializeToString())


async def main(socket: str, pods: int, per_second: float, seconds: float) -> int:
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=OPTIONS) as channel:
        load = Load(channel)
        sandboxes = [await load.sandbox(number) for number in range(pods)]
        slots, tasks = asyncio.Semaphore(AT_ONCE if not per_second else 4096), set()
        began, turn = time.monotonic(), 0
        while (now := time.monotonic()) < began + seconds:
            await slots.acquire()
            task = asyncio.ensure_future(load.life(sandboxes[turn % pods]))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            task.add_done_callback(lambda _: slots.release())
            turn += 1
            if per_second:
                await asyncio.sleep(max(0.0, began + turn / per_second - now))
        await asyncio.gather(*tasks)
        return load.made


if __name__ == "__main__":
    print(uvloop.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))))

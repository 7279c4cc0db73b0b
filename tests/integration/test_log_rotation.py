"""Rotation under a real writer, the embedded runtime and a real follower: not a line is lost."""

import asyncio
import gzip
from pathlib import Path
from typing import Any

from actors.podworker.logs import files
from actors.podworker.logs.reader import LogOptions, read_log
from actors.podworker.logs.rotation import LogRotator, RotationOptions
from tests.support.runtime import RuntimeProcess
from tests.support.waiting import until_async

COUNT = "i=0; while [ $i -lt 60000 ]; do echo $i; i=$((i+1)); [ $((i % 2000)) = 0 ] && sleep 0.05; done; sleep 100"
WANTED = [str(number) for number in range(60000)]


class Telling:
    """The one call a rotator makes."""

    def __init__(self, runtime: RuntimeProcess) -> None:
        self._runtime = runtime

    async def reopen_log(self, container_id: str) -> None:
        await self._runtime.call("ReopenContainerLog", container_id=container_id)


async def followed(path: str, into: list[bytes], running: list[bool]) -> None:
    options = LogOptions(follow=True)
    async for data in read_log(path, options, lambda: running[0]):
        into.append(data)


def kept(log: Path) -> list[str]:
    """All there is on disk, oldest first."""
    found = [gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes() for p in files.pieces(log)]
    lines = b"".join([*found, log.read_bytes()]).decode().splitlines()
    return [line.split(" ", 3)[3] for line in lines]


async def test_a_follower_and_the_disk_have_every_line() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        id = await runtime.run(sandbox, "sh", "-c", COUNT)
        log = Path((await runtime.status(id)).log_path)
        seen: list[bytes] = []
        running = [True]
        follower = asyncio.create_task(followed(str(log), seen, running))
        telling: Any = Telling(runtime)
        rotator = LogRotator(RotationOptions(100_000, 50), telling, lambda: [(id, str(log))])

        async def end() -> bytes:
            await rotator.check()
            return b"".join(seen[-2:])[-100:]

        await until_async("the last line", end, 100, 0.05, good=lambda tail: tail.endswith(b"\n59999\n"))
        running[0] = False
        await follower
        assert len(files.pieces(log)) > 1
        assert b"".join(seen).decode().split() == WANTED
        assert kept(log) == WANTED

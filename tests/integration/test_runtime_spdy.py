"""Exec and attach as crictl asks for them unless told otherwise: bare SPDY at the runtime's own URL."""

import asyncio
import json
from typing import Any

from protocols.wire import cri_pb2 as pb
from tests.support.runtime import RuntimeProcess
from tests.support.spdy import SpdyClient

SIZES = "stty size; read x; until stty size | grep -q '22 44'; do sleep 0.05; done; stty size"
V4, OLD = "v4.channel.k8s.io", ("v3.channel.k8s.io", "v2.channel.k8s.io", "channel.k8s.io")


async def test_exec_without_and_with_a_terminal() -> None:
    async with RuntimeProcess() as runtime:
        id = await runtime.run(await runtime.sandbox(), "sleep", "60")
        command = ["sh", "-c", "cat; echo bad >&2; exit 3"]
        asked: dict[str, Any] = {"container_id": id, "cmd": command, "stdin": True, "stdout": True, "stderr": True}
        client = SpdyClient("error", "stdin", "stdout", "stderr")
        assert " 101 " in await client.open((await runtime.call("Exec", **asked)).url, V4, *OLD)
        client.say("stdin", b"x" * 100_000, fin=True)
        await client.until_the_end()
        client.close()
        assert (client.received["stdout"], client.received["stderr"]) == (b"x" * 100_000, b"bad\n")
        status = json.loads(client.received["error"])
        assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
        asked = {"container_id": id, "cmd": ["sh", "-c", SIZES], "stdin": True, "stdout": True}
        client = SpdyClient("error", "stdin", "stdout", "resize")
        await client.open((await runtime.call("Exec", tty=True, **asked)).url, V4)
        client.say("resize", b'{"Width": 99, "Height": 33}\n{"Wid')
        await asyncio.sleep(0.2)
        client.say("resize", b'th": 44, "Height": 22}\n')
        client.say("stdin", b"\n")
        await client.until_the_end()
        client.close()
        assert b"22 44" in client.received["stdout"]
        assert json.loads(client.received["error"])["status"] == "Success"


async def test_attach_and_protocols_nobody_knows() -> None:
    async with RuntimeProcess() as runtime:
        id = await runtime.run(await runtime.sandbox(), "cat", stdin=True, stdin_once=True)
        asked: dict[str, Any] = {"container_id": id, "stdin": True, "stdout": True, "stderr": True}
        stranger = SpdyClient()
        assert " 400 " in await stranger.open((await runtime.call("Attach", **asked)).url, *OLD)
        stranger.close()
        url = (await runtime.call("Attach", **asked)).url
        client = SpdyClient("error", "stdin", "stdout", "stderr")
        await client.open(url, V4)
        client.say("stdin", b"hello\n", fin=True)
        await client.until_the_end()
        client.close()
        assert client.received["stdout"] == b"hello\n"
        assert (await runtime.ended(id)).exit_code == 0
        again = SpdyClient()
        assert " 404 " in await again.open(url, V4), "good once"
        again.close()


async def test_stdin_once_ends_with_the_client_that_types() -> None:
    async with RuntimeProcess() as runtime:
        sandbox = await runtime.sandbox()
        once = await runtime.run(sandbox, "cat", stdin=True, stdin_once=True)
        often = await runtime.run(sandbox, "cat", name="often", stdin=True)
        for id, channels in ((once, ("stdout",)), (often, ("stdin", "stdout")), (once, ("stdin", "stdout"))):
            assert (await runtime.status(id)).state == pb.CONTAINER_RUNNING
            asked: dict[str, Any] = dict.fromkeys(channels, True)
            client = SpdyClient("error", *channels)
            await client.open((await runtime.call("Attach", container_id=id, **asked)).url, V4)
            if "stdin" in channels:  # one that leaves before its streams are accepted has not attached
                client.say("stdin", b"x")
                await client.until_received("stdout")
            client.close()
        assert (await runtime.ended(once, timeout=10)).exit_code == 0
        assert (await runtime.status(often)).state == pb.CONTAINER_RUNNING


async def test_a_client_that_opens_nothing_or_talks_nonsense_leaves_nothing_behind() -> None:
    async with RuntimeProcess() as runtime:
        id = await runtime.run(await runtime.sandbox(), "sleep", "60")
        asked: dict[str, Any] = {"container_id": id, "cmd": ["sleep", "4246"], "stdin": True, "stdout": True}
        nonsense = SpdyClient("error", "stdin", "stdout")
        await nonsense.open((await runtime.call("Exec", **asked)).url, V4)
        nonsense._writer.write(b"\xff" * 100)
        await nonsense.until_the_end()
        nonsense.close()
        silent = SpdyClient()
        await silent.open((await runtime.call("Exec", **asked)).url, V4)
        silent.close()
        done = await runtime.call("ExecSync", container_id=id, cmd=["true"])
        assert done.exit_code == 0

"""Exec: a command beside a container, for as long as its client is there."""

import asyncio

import msgspec

from actors.runtime.model.errors import ExecFailed, RuntimeFault
from actors.runtime.model.types import Container, Driver
from actors.runtime.streaming.session import converse
from actors.runtime.streaming.stdio import Pipes, Stdio, Terminal
from protocols.streams.channels import ERROR, exit_status, failure_status
from protocols.streams.join import Socket


class Exec(msgspec.Struct, frozen=True):
    """What an Exec ticket stands for."""

    container: Container
    driver: Driver
    command: tuple[str, ...]
    stdin: bool
    outputs: tuple[int, ...]
    """Channels the client wants to read."""
    terminal: bool


async def run(socket: Socket, what: Exec) -> None:
    stdio: Stdio = Terminal() if what.terminal else Pipes(what.stdin, what.outputs)
    try:
        async with what.driver.running(what.container, list(what.command), stdio.ends, stdio.terminal) as ended:
            stdio.handed_over()
            await converse(socket, stdio, stdio.readers, lambda: _outcome(ended))
    except RuntimeFault as error:
        await socket.send_bytes(bytes([ERROR]) + failure_status(str(error)))
    finally:
        stdio.close()


async def _outcome(ended: "asyncio.Future[int]") -> bytes:
    try:
        return exit_status(await asyncio.shield(ended))
    except ExecFailed as error:
        return failure_status(str(error))

"""Ends of commands that a shim reports, to a runtime that does not read for a while and to the next one."""

import json
import select
import socket
from collections.abc import Iterator

import pytest

from actors.runtime.shim.parent import Shim

COMMANDS, NOBODY = 2000, 1 << 30


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


@pytest.fixture
def ends() -> Iterator[tuple[Shim, socket.socket]]:
    """A shim and its runtime's end of their connection."""
    ours, theirs = pair()
    shim = Shim(theirs)
    yield shim, ours
    listener = shim._listener
    for item in (ours, theirs, shim._channel, shim._wakeup, shim._wake, listener._listener, listener._ready):
        if item is not None:
            item.close()


def test_ends_of_commands_wait_for_a_runtime_that_does_not_read(ends: tuple[Shim, socket.socket]) -> None:
    shim, ours = ends
    shim._execs = {number: number for number in range(1, COMMANDS + 1)}
    for pid in list(shim._execs):
        shim._on_ended(pid, 0)
    received = []
    while select.select([ours], [], [], 0)[0]:
        received.append(json.loads(ours.recv(1000))["id"])
        shim._send_ends()
    assert received == list(range(1, COMMANDS + 1))


def test_next_runtime_gets_no_ends_of_commands_of_the_one_before(ends: tuple[Shim, socket.socket]) -> None:
    shim, _ = ends
    shim._execs = {NOBODY: 1}
    shim._drop_channel()
    ours, shim._channel = pair()
    with ours:
        shim._on_ended(NOBODY, 0)
        assert not select.select([ours], [], [], 0)[0]

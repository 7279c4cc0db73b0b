"""What a forked child writes becomes its own memory: the forkserver prepares its pages for that."""

import signal
import socket
import subprocess
import sys

import pytest

from supervisor.forkserver import wire
from supervisor.forkserver.server import _Forkserver

MEASURE = """
import gc, os
gc.disable()
import asyncio, email.policy, http.server, msgspec, unittest.mock
from supervisor.forkserver.free_blocks import occupy
from supervisor.forkserver.server import settle

def written_kb(work):
    receiver, sender = os.pipe()
    if os.fork() == 0:
        gc.enable()
        before = private_kb()
        work()
        os.write(sender, str(private_kb() - before).encode())
        os._exit(0)
    os.wait()
    return int(os.read(receiver, 100))

def private_kb():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("Private_Dirty:"))
"""
SETTLE = """
def work():
    for number in range(4096):  # replaces what the type cache holds
        getattr(int, f"name_{number}", None)
    gc.collect()  # empties the free lists

scattered = [tuple(range(size % 20)) for size in range(40_000)]
kept = scattered[::20]
del scattered
gc.freeze()
print(written_kb(work))
settle()
print(written_kb(work))
"""
OCCUPY = """
def work():
    made = [bytes(SIZE) for _ in range(150)]

objects = [bytes(SIZE) for _ in range(3200)]
del objects[::16]  # one in a page, or in two
private_kb()  # the C library sorts what was freed with the next large block
print(written_kb(work))
occupy()
print(written_kb(work))
"""


@pytest.mark.parametrize(
    "code", [SETTLE, OCCUPY.replace("SIZE", "200"), OCCUPY.replace("SIZE", "800")], ids=["settle", "pools", "heap"]
)
def test_prepared_child_writes_to_fewer_shared_pages(code: str) -> None:
    words = [sys.executable, "-c", MEASURE + code]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    unprepared, prepared = map(int, done.stdout.split())
    assert prepared < unprepared / 2


def test_order_waits_for_all_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    done = list[str]()

    def fork(order: wire.Fork) -> None:
        done.append(order.instance)
        ours.close()

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    handler = signal.getsignal(signal.SIGCHLD)
    with ours, theirs:
        server = _Forkserver(theirs, ["a", "b"])
        monkeypatch.setattr(server, "_load", done.append)
        monkeypatch.setattr(server, "_fork", fork)
        ours.send(wire.encode(wire.Fork("instance", "a", (), "log")))
        server.run()
    signal.signal(signal.SIGCHLD, handler)
    signal.set_wakeup_fd(-1)
    assert done == ["a", "b", "instance"]

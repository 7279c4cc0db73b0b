"""What a forked child writes becomes its own memory: the forkserver prepares its pages for that."""

import signal
import socket
import subprocess
import sys

import pytest

from supervisor.forkserver import wire
from supervisor.forkserver.server import _Forkserver

CODE = """
import gc, os
gc.disable()
import asyncio, email.policy, http.server, msgspec, unittest.mock
from supervisor.forkserver.server import settle

def written_kb():
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

def work():
    for number in range(4096):  # replaces what the type cache holds
        getattr(int, f"name_{number}", None)
    gc.collect()  # empties the free lists

scattered = [tuple(range(size % 20)) for size in range(40_000)]
kept = scattered[::20]
del scattered
gc.freeze()
print(written_kb())
settle()
print(written_kb())
"""


def test_settled_child_writes_to_fewer_shared_pages() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=60)
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

"""Replace what a process takes from the system: clocks, entropy, its id, sockets of the bus, threads, exit.

One run an operating system process: nothing here is undone.
"""

import concurrent.futures
import gc
import logging
import os
import random
import socket
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import aiohappyeyeballs

from actors.store.engine import writer as store_writer
from protocols.actor import shell
from protocols.bus import bus as bus_module
from protocols.process import tasks
from protocols.serving import listener
from protocols.trace import recorder
from tests.simulation.world.bus import SimLock, SimSockets
from tests.simulation.world.clocks import set_clocks
from tests.simulation.world.ordered import order_maps, order_sets
from tests.simulation.world.patching import patch, substitute
from tests.simulation.world.process import Process, ProcessExit, running
from tests.simulation.world.sockets import SocketModule

if TYPE_CHECKING:
    from tests.simulation.world.world import World


def install(world: "World") -> None:
    """Replace everything for this world. Import what runs in it first: names are replaced in loaded modules."""
    set_clocks(world)
    _entropy(world)
    _identity(world)
    _threads(world)
    _bus(world)
    _shared_state(world)
    order_sets()
    order_maps()
    gc.disable()


class _Entropy(random.Random):
    """A generator without a seed takes it from its process."""

    world: "World"

    def seed(self, a: Any = None, version: int = 2) -> None:
        if a is None:
            a = _chance(self.world).getrandbits(64)
        super().seed(a, version)


def _chance(world: "World") -> random.Random:
    return world.current.chance if world.current else world.random("outside")


def _entropy(world: "World") -> None:
    def urandom(size: int) -> bytes:
        return _chance(world).randbytes(size)

    patch(os, "urandom", urandom)
    patch(random, "_urandom", urandom)  # SystemRandom's, and so that of secrets
    _Entropy.world = world
    patch(random, "Random", _Entropy)
    for name in ("random", "uniform", "randint", "choice", "shuffle", "sample", "randrange", "expovariate",
                 "getrandbits", "choices", "gauss", "randbytes", "triangular"):  # fmt: skip
        patch(random, name, _drawing(world, name))


def _drawing(world: "World", name: str) -> Callable[..., Any]:
    def drawn(*given: Any, **named: Any) -> Any:
        return getattr(_chance(world), name)(*given, **named)

    return drawn


def _identity(world: "World") -> None:
    real = os.getpid()
    patch(socket, "gethostname", lambda: "simulated")
    patch(os, "getpid", lambda: world.current.pid if world.current else real)

    def leave(line: str, code: int) -> NoReturn:
        if line and world.current:
            world.happened(world.current.name, line)
        raise ProcessExit(code)

    patch(shell, "_leave", leave)


class _Thread:
    """A thread that runs once: work at a drawn time. What waits for another thread must be replaced by itself."""

    world: "World"

    def __init__(self, *, target: Callable[..., Any], args: tuple[Any, ...] = (), **_: Any) -> None:
        self._work = lambda: target(*args)

    def start(self) -> None:
        running(self.world).thread(self._work, lambda value, error: None)


class _Pool:
    """Stands for ThreadPoolExecutor: an executor that loops are given, or that runs work at drawn times."""

    def __init__(self, world: "World") -> None:
        self._world = world

    def submit(self, work: Callable[..., Any], *given: Any) -> "concurrent.futures.Future[Any]":
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def done(value: Any, error: BaseException | None) -> None:
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)

        running(self._world).thread(lambda: work(*given), done)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...


def _threads(world: "World") -> None:
    _Thread.world = world
    patch(threading, "Thread", _Thread)
    substitute(concurrent.futures.ThreadPoolExecutor, lambda *_, **__: _Pool(world))

    def do(writer: store_writer.WriterThread, work: Callable[[], Any], done: Any) -> None:
        running(world).in_order(work, done)

    patch(store_writer.WriterThread, "do", do)


async def _start_connection(addr_infos: Any, **_: Any) -> Any:
    """Return the destination instead of a socket: SimLoop.create_connection knows what to do."""
    return addr_infos[0][4][:2]


class _Database(sqlite3.Connection):
    """A connection that the kernel closes with its process: what was not committed is rolled back."""

    world: "World"

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        if self.world.current:
            self.world.current.ends[self] = None

    def die(self) -> None:
        self.close()


def _bus(world: "World") -> None:
    patch(bus_module, "Sockets", lambda run_dir: SimSockets(world.bus, running(world), run_dir))
    patch(listener, "socket", SocketModule(world))
    patch(aiohappyeyeballs, "start_connection", _start_connection)
    patch(bus_module, "NameLock", lambda run_dir, name: SimLock(running(world), run_dir, name))
    _Database.world = world
    connect = sqlite3.connect

    def opened(*given: Any, **named: Any) -> Any:
        named.setdefault("factory", _Database)
        return connect(*given, **named)

    patch(sqlite3, "connect", opened)


class _Failures(Counter[str]):
    """tasks.FAILURES: each process has its own."""

    world: "World"

    def __getitem__(self, kind: str) -> int:
        return self._mine()[kind]

    def __setitem__(self, kind: str, count: int) -> None:
        process = self.world.current
        if process is not None and count > process.failures[kind]:
            self.world.happened(process.name, f"task failed: {kind}")
        self._mine()[kind] = count

    def _mine(self) -> Counter[str]:
        return self.world.current.failures if self.world.current else Counter()


class _PerProcess:
    """Stands for an object that a module keeps for its process: each simulated process has one of its own."""

    def __init__(self, world: "World", make: Callable[[], Any]) -> None:
        self._world, self._make = world, make

    def __getattr__(self, name: str) -> Any:
        memory = running(self._world).memory
        if self not in memory:
            memory[self] = self._make()
        return getattr(memory[self], name)


class _Nothing:
    """Stands for the modules gc and the C library's heap: they act on the whole operating system process."""

    supported = False

    def collect(self, *_: Any) -> int:
        return 0

    def freeze(self) -> None: ...


class _Logs(logging.Handler):
    """Errors become events of the timeline."""

    def __init__(self, world: "World") -> None:
        super().__init__(logging.WARNING)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        process: Process | None = self._world.current
        if process is not None and not process.alive:
            return  # killed within a call of SQLite, which answers with an error that nobody sees
        text = record.getMessage()
        self._world.logged(process.name if process else "", record.levelno, text)


def _shared_state(world: "World") -> None:
    _Failures.world = world
    substitute(tasks.FAILURES, _Failures())
    patch(shell, "gc", _Nothing())
    patch(shell, "Heap", _Nothing)
    logging.basicConfig(handlers=[_Logs(world)], level=logging.WARNING, force=True)
    spans: Any = _PerProcess(world, recorder.SpanRecorder)
    recorder.serve_spans.__defaults__ = (spans,)
    substitute(recorder.RECORDER, spans)

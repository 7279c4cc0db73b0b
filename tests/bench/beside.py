"""Clients that read and write small objects beside a load, and how long each of their requests took."""

import math
import select
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import quantiles

import msgspec

from tests.bench.watch_lab import configmap, put_all
from tests.bench.write_client import PATIENCE_S, Writer
from tests.support.apiserver_plane import Plane

PAUSE_S = 0.005
"""Between an answer and the next request of the same client."""
PATH = "/api/v1/namespaces/kube-system/configmaps"
READ = f"GET {PATH}/beside-0 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
Request = Callable[[], bytes]


class Took:
    """Milliseconds of each request so far, by what it does."""

    def __init__(self) -> None:
        self.reads: list[float] = []
        self.writes: list[float] = []

    @property
    def p99(self) -> float:
        return p99([*self.reads, *self.writes])


def p99(values: list[float]) -> float:
    return quantiles(values, n=100)[98] if len(values) > 1 else max(values, default=math.inf)


@contextmanager
def beside(plane: Plane, writers: int = 1, readers: int = 1, pause_s: float = PAUSE_S) -> Iterator[Took]:
    """Let so many clients read and write while the block runs.

    Connections stay open, as those of clients do. The clients share a thread, which waits for the server alone: the
    block should do its work in other processes.
    """
    took, over = Took(), threading.Event()
    writes = [Client(Writer(plane, _write(number)), took.writes) for number in range(writers)]
    reads = [Client(Writer(plane, lambda: READ), took.reads) for _ in range(readers)]
    failed: list[BaseException] = []

    def run() -> None:
        try:
            _run([*writes, *reads], pause_s, over)
        except BaseException as error:
            failed.append(error)
            raise

    _create(plane, writers)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield took
    finally:
        over.set()
        thread.join()
        for client in (*writes, *reads):
            client.connection.close()
    assert not failed, failed


class Client:
    """One connection; `began` is 0 while no request of it is under way."""

    def __init__(self, connection: Writer, took: list[float]) -> None:
        self.connection, self._took = connection, took
        self._began = 0.0
        self.due = 0.0

    def send(self, now: float) -> None:
        self._began, self.due = now, 0.0
        self.connection.write()

    def answered(self, pause_s: float) -> bool:
        if not self.connection.answered():
            return False
        now = time.monotonic()
        self._took.append(1000 * (now - self._began))
        self.due = now + pause_s
        return True


def _run(clients: list[Client], pause_s: float, over: threading.Event) -> None:
    poll, by_number = select.epoll(), {client.connection.number: client for client in clients}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    waiting, under_way = set(clients), 0
    while under_way or not over.is_set():
        now = time.monotonic()
        for client in [client for client in waiting if client.due <= now and not over.is_set()]:
            waiting.discard(client)
            client.send(now)
            under_way += 1
        pause = max(0.001, min((client.due for client in waiting), default=now + PATIENCE_S) - now)
        ready = poll.poll(pause if not over.is_set() or under_way else 0)
        assert ready or waiting, "the server is silent"
        for number, _ in ready:
            if by_number[number].answered(pause_s):
                waiting.add(by_number[number])
                under_way -= 1
    poll.close()


def _create(plane: Plane, count: int) -> None:
    names = [f"beside-{number}" for number in range(count)]
    put_all(plane, [(f"/registry/configmaps/kube-system/{n}", configmap(n, "kube-system", size=300)) for n in names])


def _write(number: int) -> Request:
    """PATCHes that change something each time, of an object of their own."""

    def request() -> bytes:
        body = msgspec.json.encode({"data": {"at": str(time.time())}})
        head = f"PATCH {PATH}/beside-{number} HTTP/1.1\r\nHost: localhost\r\n"
        kind = "Content-Type: application/merge-patch+json\r\n"
        return f"{head}{kind}Content-Length: {len(body)}\r\n\r\n".encode() + body

    return request

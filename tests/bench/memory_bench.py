"""Size of the processes after storms of clients, against their size before: what is free goes back to the system."""

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import Callable

from tests.bench.row import Row
from tests.bench.watch_lab import configmap, put_all, resident_kb, watches
from tests.bench.watch_line import Options
from tests.support.apiserver_plane import Plane, running_plane

LIMIT, WITHIN_S = 1.3, 60.0
WATCHES, ROUNDS, WARM = 5000, 4, 100
LISTED, LISTED_BYTES, LISTS, AT_ONCE = 200, 100_000, 60, 6
REFUSED, REFUSED_BYTES = 200, 4_000_000
STRANGERS = 2000
WARM_S = 22.0
"""Two looks of a process at its own memory."""
CONFIGMAPS = "/api/v1/configmaps"
Storm = Callable[[Plane], None]


def run() -> list[Row]:
    """Sizes before are of processes that have served ordinary traffic, so that a first use counts as no growth."""
    with running_plane() as plane:
        pairs = [(f"/registry/configmaps/default/c-{n}", configmap(f"c-{n}", size=LISTED_BYTES)) for n in range(LISTED)]
        put_all(plane, pairs)
        _watches(plane, WARM)
        asyncio.run(_lists(plane, AT_ONCE))
        time.sleep(WARM_S)
        before = _sizes(plane)
        return [row for told, storm in STORMS.items() for row in _after(plane, told, storm, before)]


def _after(plane: Plane, told: str, storm: Storm, before: dict[str, int]) -> list[Row]:
    """The ratio once it is low enough; else as it is after WITHIN_S."""
    storm(plane)
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline and max(_ratios(plane, before).values()) > LIMIT:
        time.sleep(1.0)
    sizes = _sizes(plane)
    return [
        Row(f"memory: {name} after {told}", size / 1024, "MB", was / 1024, f"<= {LIMIT} x before", size <= LIMIT * was)
        for name, size in sizes.items()
        for was in (before[name],)
    ]


def _sizes(plane: Plane) -> dict[str, int]:
    return {name.partition("-")[0]: resident_kb(process.pid) for name, process in plane.processes.items()}


def _ratios(plane: Plane, before: dict[str, int]) -> dict[str, float]:
    return {name: size / before[name] for name, size in _sizes(plane).items()}


def _watch_rounds(plane: Plane) -> None:
    for _ in range(ROUNDS):
        _watches(plane, WATCHES)


def _watches(plane: Plane, count: int) -> None:
    start = put_all(plane, [("/registry/configmaps/kube-system/one", configmap("one", "kube-system"))])
    with watches(Options(plane.port, str(plane.settings.layout.pki), [CONFIGMAPS], count, start)) as client:
        assert client.ask("stats")["opened"] >= count


def _list_storm(plane: Plane) -> None:
    asyncio.run(_lists(plane, LISTS))


async def _lists(plane: Plane, count: int) -> None:
    gate = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with gate, session.get(CONFIGMAPS) as answer:
            assert answer.status == 200
            async for _ in answer.content.iter_chunked(1 << 20):
                pass

    async with plane.client() as session:
        await asyncio.gather(*(one() for _ in range(count)))


def _refused_bodies(plane: Plane) -> None:
    asyncio.run(_bodies(plane))


async def _bodies(plane: Plane) -> None:
    gate, body = asyncio.Semaphore(AT_ONCE), b"x" * REFUSED_BYTES

    async def one() -> None:
        async with gate, plane.client() as session:
            with contextlib.suppress(ConnectionError, OSError):
                async with session.post("/api/v1/namespaces/default/configmaps", data=body) as answer:
                    assert answer.status == 413, await answer.text()

    await asyncio.gather(*(one() for _ in range(REFUSED)))


def _strangers(plane: Plane) -> None:
    """Connections without a certificate that send nothing; the server may close what is too many."""
    context = ssl.create_default_context(cafile=str(plane.settings.layout.ca_cert))
    with contextlib.ExitStack() as held:
        for _ in range(STRANGERS):
            raw = held.enter_context(contextlib.closing(socket.create_connection(("127.0.0.1", plane.port), 60)))
            with contextlib.suppress(OSError):
                held.enter_context(context.wrap_socket(raw, server_hostname="127.0.0.1"))


STORMS: dict[str, Storm] = {
    f"{ROUNDS} x {WATCHES} watches": _watch_rounds,
    f"{LISTS} lists of {LISTED * LISTED_BYTES // 1_000_000} MB": _list_storm,
    f"{REFUSED} bodies of {REFUSED_BYTES // 1_000_000} MB, refused": _refused_bodies,
    f"{STRANGERS} silent connections": _strangers,
}

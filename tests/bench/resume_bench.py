"""Many watches over four API server processes, one of them killed: how soon all are back, and what they missed."""

import signal
import threading
import time
from typing import Any

from tests.bench.row import Row, at_most
from tests.bench.watch_lab import TOKEN, Peer, configmap, give_token, put_all, until_applied, watches
from tests.bench.watch_line import Options
from tests.support.apiserver_plane import Plane, running_plane
from tests.support.plane import until

PROCESSES, WATCHES = 4, 10_000
EVENTS, RATE = 8, 1.0
LIMIT_S = 3.0
PATIENCE_S = 60.0
VICTIM = "apiserver-2"
PATH = "/api/v1/namespaces/default/configmaps"


def run() -> list[Row]:
    """Clients that prove themselves by token, as pods do, and by certificate, which costs a handshake twice as much."""
    rows = []
    for told, token in (("tokens", TOKEN), ("certificates", "")):
        with running_plane() as plane:
            give_token(plane)
            scale(plane)
            start = put_all(plane, [("/registry/configmaps/default/first", configmap("first"))])
            options = Options(plane.port, str(plane.settings.layout.pki), [PATH], WATCHES, start, True, token=token)
            with watches(options) as client:
                rows += _kill_one(plane, client, told)
    return rows


def scale(plane: Plane) -> None:
    names = [f"apiserver-{number}" for number in range(1, PROCESSES)]
    for name in names:
        plane.spawn(name)
    for name in names:
        until_applied(plane, 0, name)


def _kill_one(plane: Plane, client: Peer, how: str) -> list[Row]:
    """Writes go on before, during and after."""
    pairs = [(f"/registry/configmaps/default/c-{number}", configmap(f"c-{number}")) for number in range(EVENTS)]
    writing = threading.Thread(target=put_all, args=(plane, pairs, RATE))
    writing.start()
    time.sleep(1)
    killed = time.monotonic()
    plane.kill(VICTIM, signal.SIGKILL)
    writing.join()
    stats = until("all watches are back", lambda: _settled(client), PATIENCE_S, every=0.1)
    told = f"{WATCHES} watches, {PROCESSES} processes, {how}"
    off = abs(stats["events"] - EVENTS * WATCHES)
    return [
        at_most(f"resume after a kill: {told}", [stats["last_open"] - killed], "s", LIMIT_S),
        Row(f"resume: watches moved, {how}", stats["lost"], "", target="> 0", ok=stats["lost"] > 0),
        Row(f"resume: refused, to be listed again, {how}", stats["errors"], "", target="0", ok=not stats["errors"]),
        Row(f"resume: events missed or repeated, {how}", off, "", target="0", ok=not off),
    ]


def _settled(client: Peer) -> dict[str, Any]:
    """Once all are open again and nothing more comes."""
    before = client.ask("stats")
    time.sleep(0.5)
    stats: dict[str, Any] = client.ask("stats")
    back = stats["opened"] == WATCHES + stats["lost"]
    return stats if back and stats["events"] == before["events"] >= EVENTS * WATCHES else {}

"""Requests made to hold the API server's event loop: each gets the answer docs/explanation/bounds.md promises, while
another connection is answered all the time."""

import http.client
import os
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.apiserver_plane import Plane, running_plane
from tests.support.stall_attacks import ATTACKS, NAMESPACE, Attack, Sent
from tests.support.waiting import until

pytestmark = pytest.mark.heavy

LONGEST_WAIT_S = 4.0
"""For an answer of another connection, on a busy machine: the supervisor kills a server at 5 s."""
READY_SECONDS = 60.0


@pytest.fixture(scope="module")
def plane() -> Iterator[Plane]:
    """An API server; in the end no process has died."""
    with running_plane() as started:
        started.create_namespaces(NAMESPACE)
        yield started
        assert [started.processes[name].poll() for name in started.processes] == [None] * len(started.processes)
        assert "Traceback" not in started.logs()


def _connected(plane: Plane, user: str) -> http.client.HTTPSConnection:
    return http.client.HTTPSConnection("127.0.0.1", plane.port, timeout=120, context=plane.tls(user))


def _answered(connection: http.client.HTTPSConnection, sent: Sent) -> tuple[int, bytes]:
    connection.request(sent.method, sent.path, sent.body or None, sent.all_headers())
    answer = connection.getresponse()
    return answer.status, answer.read()


class _Probe(threading.Thread):
    """Small reads on a connection of its own, one after the other."""

    def __init__(self, plane: Plane) -> None:
        super().__init__()
        self._plane, self._over = plane, threading.Event()
        self.waits: list[float] = []
        self.statuses: set[int] = set()

    def run(self) -> None:
        connection = http.client.HTTPSConnection("127.0.0.1", self._plane.port, timeout=60, context=self._plane.tls())
        while not self.statuses or not self._over.is_set():
            began = time.monotonic()
            connection.request("GET", "/api/v1/namespaces/default")
            answer = connection.getresponse()
            answer.read()
            self.waits.append(time.monotonic() - began)
            self.statuses.add(answer.status)
            time.sleep(0.005)
        connection.close()

    def __enter__(self) -> "_Probe":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join(60)


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attack_is_answered_and_others_do_not_wait(plane: Plane, attack: Attack) -> None:
    admin, attacker = _connected(plane, "admin"), _connected(plane, attack.user)
    for sent in attack.sent_before():
        status, body = _answered(admin, sent)
        assert status in (201, 409), body[:500]
    if attack.ready:
        ready = Sent("GET", attack.ready)
        until("ready", lambda: _answered(attacker, ready), READY_SECONDS, good=lambda answer: answer[0] == 200)
    began = time.monotonic()
    with _Probe(plane) as probe:
        status, body = _answered(attacker, attack.sent())
        took = time.monotonic() - began
    admin.close()
    attacker.close()
    if os.environ.get("STALL_FIGURES"):
        print(f"\n{attack.name}: {status} in {took:.2f} s, others {max(probe.waits):.3f} s, {body[:160]!r}")
    assert status in attack.statuses, body[:500]
    assert probe.statuses == {200}
    assert max(probe.waits) < LONGEST_WAIT_S

"""Watchers that a test leaves open while it breaks things: they resume as clients do, and write down all they saw."""

import contextlib
import http.client
import json
import socket
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from tests.support.plane import Plane, until
from tests.support.plane_client import connect, read_object
from tests.support.waiting import saw

SILENCE_S = 90.0
"""Longer than it takes to the next bookmark: a watch of which nothing comes is no broken one."""


@dataclass
class Seen:
    type: str
    rv: int
    name: str
    object: dict[str, Any] = field(repr=False)


class ApiWatcher:
    """Watches one collection over HTTPS, independent of nodeplane's own client code; resumes at its last version."""

    def __init__(self, plane: Plane, path: str) -> None:
        self._plane, self._path = plane, path
        self.events: list[Seen] = []
        self.errors: list[dict[str, Any]] = []
        self.reconnects = -1
        listed = until(f"a list of {path}", lambda: read_object(plane.root, path))
        self.start_rv = self.rv = int(listed["metadata"]["resourceVersion"])
        self._connection: http.client.HTTPSConnection | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        until(f"watch of {path} open", lambda: self.reconnects >= 0)

    def close(self) -> None:
        self._stop.set()
        if self._connection and self._connection.sock:
            with contextlib.suppress(OSError):
                self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._watch()
            except (OSError, http.client.HTTPException, ValueError) as error:
                saw(f"watch of {self._path}: {error!r}")
            time.sleep(0.02)

    def _watch(self) -> None:
        connection = self._connection = connect(self._plane.root, timeout=15.0)
        try:
            query = f"?watch=true&allowWatchBookmarks=true&resourceVersion={self.rv}"
            connection.request("GET", self._path + query)
            with connection.getresponse() as answer:  # it owns the socket where the server wants it closed
                if answer.status != 200:
                    answer.read()
                    return
                if connection.sock is not None:
                    connection.sock.settimeout(SILENCE_S)
                self.reconnects += 1
                self._follow(connection, answer)
        finally:
            connection.close()

    def _follow(self, connection: http.client.HTTPSConnection, answer: http.client.HTTPResponse) -> None:
        while not self._stop.is_set():
            try:
                line = answer.readline()
            except TimeoutError:
                if connection.sock is None or self._stop.is_set():
                    return
                raise
            if not line:
                return
            self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        if event["type"] == "ERROR":
            self.errors.append(event["object"])
            return
        metadata = event["object"]["metadata"]
        rv = int(metadata["resourceVersion"])
        if event["type"] != "BOOKMARK":
            self.events.append(Seen(event["type"], rv, metadata["name"], event["object"]))
        self.rv = rv  # last: who waits for it then reads the events

"""Writes configmaps for as long as a test breaks things, and remembers which writes were acknowledged."""

import json
import threading
import time

from tests.support.plane import Plane, until
from tests.support.plane_client import ask, read_object


class Writer:
    def __init__(self, plane: Plane, per_second: float = 20.0) -> None:
        self._plane, self._pause = plane, 1 / per_second
        self._prefix = f"ack-{time.time_ns()}"
        self.acknowledged: dict[str, str] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            name, value = f"{self._prefix}-{number}", str(time.time_ns())
            if self._create(name, value):
                self.acknowledged[name] = value
            time.sleep(self._pause)

    def _create(self, name: str, value: str) -> bool:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"value": value}}
        status, _ = ask(self._plane.root, "POST", "/api/v1/namespaces/default/configmaps", json.dumps(body))
        return status == 201

    def nothing_lost(self) -> None:
        """Every acknowledged write is there, with what was written."""
        path = "/api/v1/namespaces/default/configmaps"
        items = until("a list of configmaps", lambda: read_object(self._plane.root, path))["items"]
        stored = {item["metadata"]["name"]: item.get("data", {}).get("value") for item in items}
        lost = {name for name, value in self.acknowledged.items() if stored.get(name) != value}
        assert not lost, f"acknowledged but lost: {sorted(lost)}"
        assert self.acknowledged, "no write was acknowledged at all"

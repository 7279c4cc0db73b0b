"""Follow all pods of a plane as a client does, and retain what each of them showed."""

import json
import threading
from pathlib import Path
from typing import Any

from tests.support.plane_client import connect

Key = tuple[str, str]
"""Namespace and name of a pod."""


class PodHistory:
    """Every object of every pod since the watch began, in order; close it at the end."""

    def __init__(self, root: Path) -> None:
        self.seen: dict[Key, list[dict[str, Any]]] = {}
        self.gone: set[Key] = set()
        self._connection = connect(root, timeout=300)
        self._connection.request("GET", "/api/v1/pods?watch=true")
        self._answer = self._connection.getresponse()
        assert self._answer.status == 200
        self._ended = False
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def last(self, key: Key) -> dict[str, Any]:
        """Return the newest object of a pod, {} before it was seen."""
        return self.seen.get(key, [{}])[-1]

    def close(self) -> None:
        self._ended = True
        if self._connection.sock is not None:
            self._connection.sock.shutdown(2)
        self._thread.join(30)
        self._connection.close()

    def _follow(self) -> None:
        try:
            while line := self._answer.readline():
                event = json.loads(line)
                metadata = event["object"]["metadata"]
                metadata.pop("managedFields", None)
                key = metadata["namespace"], metadata["name"]
                self.seen.setdefault(key, []).append(event["object"])
                if event["type"] == "DELETED":
                    self.gone.add(key)
        except (OSError, ValueError):
            if not self._ended:
                raise

"""The simulated plugin, driver or agent with a bug: `python faulty.py BUG COMMAND ...` for `nodeplane COMMAND ...`."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from actors.simulator.driver.claims import Claims, Prepared
from actors.simulator.plugin.process import Registration
from actors.simulator.plugin.server import PluginServer
from protocols.podresources.blocking import BlockingPodResources
from protocols.podresources.session import PodWatchSession
from supervisor.cli.main import main

POLL_S = 0.2

# device plugins


def registers_once() -> None:
    real = Registration._reconcile

    async def reconcile(self: Registration) -> bool:
        return self.first.is_set() or await real(self)

    Registration._reconcile = reconcile


def keeps_a_lock_file() -> None:
    """Each test has a namespace, and a lock of its own."""
    lock = Path(os.environ["NODEPLANE_KUBELET_DIR"], f"{os.environ['NAMESPACE']}.lock")
    if lock.exists():
        sys.exit(f"another plugin runs: {lock.name} exists")
    lock.touch()


def reports_no_health() -> None:
    PluginServer.set_health = lambda self, health: None


# DRA drivers


def prepares_again_with_more_files() -> None:
    real = Claims.prepare

    async def prepare(self: Claims, namespace: str, name: str, uid: str) -> list[Prepared]:
        prepared = await real(self, namespace, name, uid)
        self._file(f"{uid}-{os.getpid()}").write_text("{}")
        return prepared

    Claims.prepare = prepare


# agents


def polls() -> None:
    follow_by_lists()
    os._exit(0)


def polls_beside_its_watch() -> None:
    threading.Thread(target=follow_by_lists, args=(lambda line: None,), daemon=True).start()


def follow_by_lists(tell: Callable[[str], object] = print) -> None:
    seen: set[str] = set()
    while True:
        try:
            with BlockingPodResources(Path(os.environ["NODEPLANE_POD_RESOURCES"])) as node:
                names = {pod.name for pod in node.list()}
        except Exception:
            names = seen
        for name in names - seen:
            tell(json.dumps({"action": "ADDED", "name": name}))
        sys.stdout.flush()
        seen = names
        time.sleep(POLL_S)


def gives_up_when_the_stream_breaks() -> None:
    def ended(self: PodWatchSession[Any], code: Any, details: str) -> float:
        os._exit(1)

    PodWatchSession.ended = ended


def starts_anew_when_the_stream_breaks() -> None:
    """By a watch that shows everything again, as an agent does that does not resume."""
    real = PodWatchSession.ended

    def ended(self: PodWatchSession[Any], code: Any, details: str) -> float:
        PodWatchSession.__init__(self, type(self._state)(), self._options)
        return real(self, code, details)

    PodWatchSession.ended = ended


def lists_when_the_stream_breaks() -> None:
    real = PodWatchSession.ended

    def ended(self: PodWatchSession[Any], code: Any, details: str) -> float:
        threading.Timer(POLL_S, list_until_answered).start()
        return real(self, code, details)

    PodWatchSession.ended = ended


def list_until_answered() -> None:
    with BlockingPodResources(Path(os.environ["NODEPLANE_POD_RESOURCES"])) as node:
        while True:
            try:
                return print(len(node.list()), file=sys.stderr)
            except Exception:
                time.sleep(POLL_S)


if __name__ == "__main__":
    BUG = sys.argv[1]
    globals()[BUG]()
    sys.exit(main(sys.argv[2:]))

"""The simulated plugin, driver or agent with a bug: `python faulty.py BUG COMMAND ...` for `nodeplane COMMAND ...`."""

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from actors.simulator.driver.claims import ClaimRejected, Claims, Prepared
from actors.simulator.plugin.devices import Devices
from actors.simulator.plugin.registration import Registration
from actors.simulator.plugin.scripted_server import ScriptedServer
from actors.simulator.plugin.server import PluginServer
from protocols.podresources.blocking import BlockingPodResources
from protocols.podresources.session import Session
from protocols.wire import deviceplugin_v1beta1_pb2 as pb
from supervisor.cli.main import main

POLL_S = 0.2
NUMBERS = itertools.count()

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


def ends_with_the_kubelet() -> None:
    real = Registration._reconcile

    async def reconcile(self: Registration) -> bool:
        if self.first.is_set() and self._node() != self._registered_at:
            os._exit(0)
        return await real(self)

    Registration._reconcile = reconcile


def keeps_its_removed_socket() -> None:
    real = PluginServer.start

    async def start(self: PluginServer) -> None:
        if self._server is None:
            await real(self)

    PluginServer.start = start


def names_devices_anew() -> None:
    real = PluginServer.start

    async def start(self: PluginServer) -> None:
        stem = f"gpu-{os.getpid()}-{next(NUMBERS)}"
        specs = [msgspec.structs.replace(spec, id=f"{stem}-{at}") for at, spec in enumerate(self.devices.specs())]
        self.devices = Devices("gpu", specs)
        await real(self)

    PluginServer.start = start


def chooses_devices_itself() -> None:
    def answer(self: PluginServer, ids: list[str]) -> pb.ContainerAllocateResponse:
        names = [spec.id for spec in self.devices.specs()][::-1]
        mine = [names[next(NUMBERS) % len(names)] for _ in ids]
        return pb.ContainerAllocateResponse(envs={self._options.variable: ",".join(mine)})

    ScriptedServer._answer = answer


def reports_no_health() -> None:
    PluginServer.set_health = lambda self, health: None


def dies_with_a_device() -> None:
    PluginServer.set_health = lambda self, health: os._exit(1) if health else None


def reports_no_recovery() -> None:
    real = PluginServer.set_health
    PluginServer.set_health = lambda self, health: real(self, health) if health else None


def forgets_broken_devices() -> None:
    def listed(self: PluginServer) -> pb.ListAndWatchResponse:
        good = [spec for spec in self.devices.specs() if self.devices.health[spec.id] == "Healthy"]
        return pb.ListAndWatchResponse(devices=[self._device(spec) for spec in good])

    PluginServer._list = listed


# DRA drivers


def with_prepare(change: Callable[[Claims, str, bool, list[Prepared]], list[Prepared]]) -> None:
    """Change the answers of NodePrepareResources, knowing whether this process prepared the claim before."""
    real = Claims.prepare
    known: set[str] = set()

    async def prepare(self: Claims, namespace: str, name: str, uid: str) -> list[Prepared]:
        again = uid in known
        known.add(uid)
        existed = self._file(uid).exists()
        if existed and not again:
            change_after_restart(self, uid)
        return change(self, uid, again, await real(self, namespace, name, uid))

    Claims.prepare = prepare


def change_after_restart(claims: Claims, uid: str) -> None:
    if BUG == "forgets_claims_when_it_restarts":
        raise ClaimRejected(f"the file of claim {uid} exists already")


def rejects_a_prepared_claim() -> None:
    def change(claims: Claims, uid: str, again: bool, found: list[Prepared]) -> list[Prepared]:
        if again:
            raise ClaimRejected(f"claim {uid} is prepared already")
        return found

    with_prepare(change)


def answers_nothing_for_a_prepared_claim() -> None:
    with_prepare(lambda claims, uid, again, found: [] if again else found)


def names_prepared_devices_anew() -> None:
    with_prepare(
        lambda claims, uid, again, found: [
            msgspec.structs.replace(each, cdi=f"{each.cdi}-again" if again else each.cdi) for each in found
        ]
    )


def prepares_again_with_more_files() -> None:
    def change(claims: Claims, uid: str, again: bool, found: list[Prepared]) -> list[Prepared]:
        claims._file(f"{uid}-{next(NUMBERS)}").write_text("{}")
        return found

    with_prepare(change)


def forgets_claims_when_it_restarts() -> None:
    with_prepare(lambda claims, uid, again, found: found)


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
    def ended(self: Session[Any], code: Any, details: str) -> float:
        os._exit(1)

    Session.ended = ended


def starts_anew_when_the_stream_breaks() -> None:
    """By a watch that shows everything again, as an agent does that does not resume."""
    real = Session.ended

    def ended(self: Session[Any], code: Any, details: str) -> float:
        Session.__init__(self, type(self._state)(), self._options)
        return real(self, code, details)

    Session.ended = ended


def lists_when_the_stream_breaks() -> None:
    real = Session.ended

    def ended(self: Session[Any], code: Any, details: str) -> float:
        threading.Timer(POLL_S, list_until_answered).start()
        return real(self, code, details)

    Session.ended = ended


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

"""The control profile: a control plane, and clients that write, watch and follow."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from protocols.etcd.options import store_options
from tests.simulation.control.bookmarks import BookmarkCheck
from tests.simulation.control.calm import Calm
from tests.simulation.control.clients import HttpWatcher, HttpWriter, informer
from tests.simulation.control.leases import LeaseHolder
from tests.simulation.control.oracle import Oracle
from tests.simulation.control.plane import ControlPlane, ControlShape
from tests.simulation.control.servers import client_options
from tests.simulation.control.workloads import broken, nodes, owner
from tests.simulation.control.writers import SERVED_S, Pace, Writer
from tests.simulation.etcd.faults import BUMP
from tests.simulation.model import Broken, Main
from tests.simulation.world.actors import SUPERVISOR
from tests.simulation.world.faults import MEANS
from tests.simulation.world.limits import draw_bus
from tests.simulation.world.process import Process
from tests.simulation.world.supervision import SUPERVISION_FAULTS

if TYPE_CHECKING:
    from tests.simulation.world.world import World

RESTART_S = 0.01, 0.5
IDLE = "idle"
"""The watcher of a namespace in which nothing happens, and the namespace: only bookmarks move it."""


class ControlProfile:
    """Everything of one run."""

    kinds: tuple[str, ...] = (
        "kill", "crash", "pause", "cut", "all", "clock", "oneway", "halfopen", "slowread", "torn", *SUPERVISION_FAULTS,
    )  # fmt: skip
    means: tuple[float, ...] = MEANS
    servers, followers, writers, http_writers, watchers = 2, 1, 1, 2, 2
    rate = 66.0
    """Of each writer to the store: with those over HTTP, fifty writes a second succeed while all is well."""
    etcd_share = 0.3
    bumps: tuple[int, ...] = (0, BUMP)
    beside: tuple[str, ...] = ()
    """Resources of which followers have replicas, too."""
    rare = 0.0
    """Share of the writes to keys that are seldom written twice."""

    def __init__(self, world: "World") -> None:
        self._world = world
        draw_bus(world)
        self._has_workloads = self.servers > 0 and bool(world.draw("workloads", 0, 0, 0, 1))
        shape = ControlShape(
            servers=self.servers,
            followers=self.followers,
            beside=self.beside,
            works=self._has_workloads,
            etcd_share=self.etcd_share,
            bumps=(BUMP,) if self._has_workloads else self.bumps,
        )
        self._plane = ControlPlane(world, world.root, shape)
        self._history, self._settings = self._plane.history, self._plane.settings
        self._prefix = self._plane.row.storage_prefix.encode()
        self.kinds += self._plane.faults
        self._readers = self._make_readers()
        self._bookmarks = BookmarkCheck(world)
        self._clients = {**self._writers(), **self._readers}
        self.processes: dict[str, Main] = {**self._plane.processes, **self._clients}
        self.targets = (*self._plane.processes, SUPERVISOR, *(reader for reader in self._readers if reader != IDLE))
        self._quiet = False

    def _writers(self) -> dict[str, Main]:
        options = store_options(self._settings, self._settings.layout)[0]
        several = 0.0 if self.servers else self._world.draw("several_share", 0.3, 0.3, 0.0)
        large = 0 if self.servers else int(self._world.draw("large_every", 3, 3, 0, 30))
        pace = Pace(self.rate, several, self._world.draw("lull_share", 0.3, 0.05, 0.0), self.rare, large)
        self._direct = [Writer(f"writer-{n}", options, self._prefix, self._history, pace) for n in range(self.writers)]
        direct: list[Writer | HttpWriter] = [*self._direct]
        self._leases = LeaseHolder("holder", options, self._history)
        admin = client_options(self._settings, "admin")
        torn = self._world.draw("torn_answers_share", 0.2, 0.02, 0.0)
        over_http = [
            HttpWriter(f"client-{n}", admin, self._prefix, self._history, torn) for n in range(self.http_writers)
        ]
        self._over_http, direct = over_http, [*direct, *over_http]
        busy = {"owner": owner(admin)} if self._has_workloads else {}
        return {each.name: each.main() for each in (*direct, self._leases)} | busy

    def _make_readers(self) -> dict[str, Main]:
        if not self.servers:
            return {}
        admin = client_options(self._settings, "admin")
        watchers = {f"watcher-{n}": HttpWatcher(admin, self._history).main() for n in range(self.watchers)}
        watchers |= {IDLE: HttpWatcher(admin, self._history, IDLE).main(), "informer": informer(admin, self._history)}
        return watchers | ({"nodes": nodes(admin)} if self._has_workloads else {})

    def begin(self) -> None:
        self._supervision = self._plane.begin(SUPERVISOR)
        self._calm = Calm(self._world, "watchcache")
        self._world.kill_by_fault = self._supervision.kill
        self._world.on_end.append(self._restart)
        for name in self._clients:
            self._world.spawn(name)

    def _restart(self, process: Process, code: int, signal: int) -> None:
        name, world = process.name, self._world
        if name not in self._clients or (self._quiet and name not in self._readers):
            return
        delay = world.random("restarts").uniform(*RESTART_S)
        world.at(delay, None, lambda: name in world.processes or world.spawn(name))

    def quiesce(self) -> None:
        self._quiet = True
        self._calm.quiesce()
        self._supervision.start_failed()
        for writer in self._direct:
            writer.quiet = True
        for name in sorted(self._clients.keys() - self._readers.keys() - {each.name for each in self._direct}):
            self._world.kill(name)
        for client in self._over_http:
            client.killed()

    def check(self) -> list[Broken]:
        found = Oracle(self._world, self._history, self._prefix, self.targets).check()
        found += [*self._served(), *self._leases.check(), *self._calm.check(), *self._supervision.broken]
        found += self._bookmarks.broken
        return found + list(broken(self._history.stored("replicasets", "pods"))) if self._has_workloads else found

    def _served(self) -> Iterator[Broken]:
        for writer in self._direct:
            if (silence := self._world.now - writer.answered_at) > SERVED_S:
                yield Broken("clients are served", f"{writer.name} has had no answer for {silence:.0f} s")

    def counts(self) -> dict[str, int]:
        history = self._history
        return {
            "commits": len(history.committed),
            "acknowledged": len(history.acknowledged),
            "unknown": history.unknown,
            "delivered": sum(len(seen.changes) for seen in history.seen),
            "skips": len(history.skips),
            "escalations": len(self._supervision.escalations),
            "relists": len(history.relists),
        }


class StoreProfile(ControlProfile):
    """The same without API servers, which is several times as fast: more seeds for what is below them."""

    servers, followers, writers, http_writers, watchers = 0, 3, 3, 0, 0
    rate = 30.0
    etcd_share = 0.0

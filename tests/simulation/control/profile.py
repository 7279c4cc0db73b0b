"""The control profile: a store, its watch cache, replicas that follow it, and clients that write."""

from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
from msgspec.structs import replace

from actors.apiserver.actor import TABLE, ApiServer
from actors.controllers.actor import Controllers
from actors.scheduler.actor import Scheduler
from actors.store.actor import StoreActor
from actors.watchcache.actor import WatchcacheActor
from protocols.actor.shell import Factory
from protocols.etcd import etcd_options
from supervisor.base.groups import CONTROL, child, watcher
from tests.simulation.control.clients import HttpWatcher, HttpWriter, informer
from tests.simulation.control.followers import FollowerActor
from tests.simulation.control.history import History
from tests.simulation.control.leases import LeaseHolder
from tests.simulation.control.limits import draw_limits
from tests.simulation.control.oracle import Oracle
from tests.simulation.control.servers import client_options, install_servers
from tests.simulation.control.workloads import broken, nodes, owner
from tests.simulation.control.writers import Writer
from tests.simulation.disk.machine import DISK_FAULTS, Machine
from tests.simulation.etcd.cluster import ENDPOINTS, Cluster
from tests.simulation.etcd.faults import ETCD_FAULTS, EtcdFaults
from tests.simulation.model import Broken, Main
from tests.simulation.world.actors import SUPERVISOR, actor
from tests.simulation.world.patching import patch
from tests.simulation.world.process import Process
from tests.simulation.world.supervision import Plan, Supervision
from tests.support.settings import plane_settings

if TYPE_CHECKING:
    from tests.simulation.world.world import World

RESTART_S = 0.01, 0.5


class NoGrpcServer:
    """Stands for the store's public gRPC server: everybody here uses the private endpoint."""

    def __init__(self, *_: Any, **__: Any) -> None: ...
    def add_generic_rpc_handlers(self, handlers: Any) -> None: ...

    def add_insecure_port(self, address: str) -> int:
        return 1

    async def start(self) -> None: ...
    async def stop(self, grace: float) -> None: ...


class ControlProfile:
    """Everything of one run."""

    kinds: tuple[str, ...] = ("kill", "crash", "pause", "cut", "all", "clock", "oneway")
    servers, followers, writers, http_writers, watchers = 2, 1, 1, 2, 2
    etcd_share = 0.3
    """Share of seeds with the model of an etcd in place of the embedded store."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._history = History(world)
        patch(grpc.aio, "server", NoGrpcServer)
        self._settings = plane_settings(world.root)
        self._cluster = self._make_cluster()
        self.kinds += ETCD_FAULTS if self._cluster else DISK_FAULTS
        draw_limits(world)
        install_servers(world, self._settings)
        self._history.record_commits()
        self._history.record_skips()
        self._row = TABLE.of("configmaps")
        self._prefix = self._row.storage_prefix.encode()
        self._has_workloads = self.servers > 0 and bool(world.draw("workloads", 0, 0, 0, 1))
        self.supervised = self._supervised()
        self._readers = self._make_readers()
        self._clients = {**self._writers(), **self._readers}
        self.processes: dict[str, Main] = {**self.supervised, **self._clients}
        self.targets = (*self.supervised, SUPERVISOR, *self._readers)
        self._quiet = False

    def _make_cluster(self) -> Cluster | None:
        world = self._world
        chosen = world.random("etcd").random() < self.etcd_share
        world.limits["etcd"] = float(chosen)
        if not chosen:
            return None
        compaction = int(world.draw("etcd_compaction_s", 2, 20, 300))
        self._settings = replace(
            self._settings, store_endpoints=ENDPOINTS, store_embedded=False, etcd_compaction_s=compaction,
            leader_elect=bool(world.draw("leader_elect", 0, 1)),
        )  # fmt: skip
        cluster = Cluster(world, self._history.on_disk)
        EtcdFaults(cluster)
        return cluster

    def _supervised(self) -> dict[str, Main]:
        settings = self._settings
        follower = partial(FollowerActor, row=self._row, history=self._history, world=self._world)
        busy: dict[str, Factory] = {"controllers": Controllers, "scheduler": Scheduler} if self._has_workloads else {}
        return {
            **{name: actor(name, factory, settings) for name, factory in busy.items()},
            **({} if self._cluster else {"store": actor("store", StoreActor, settings)}),
            "watchcache": actor("watchcache", WatchcacheActor, settings),
            **{f"apiserver-{n}": actor(f"apiserver-{n}", ApiServer, settings) for n in range(self.servers)},
            **{f"follower-{n}": actor(f"follower-{n}", follower, settings) for n in range(self.followers)},
        }

    def _writers(self) -> dict[str, Main]:
        options = etcd_options(self._settings, self._settings.layout)
        direct: list[Writer | HttpWriter] = [
            Writer(f"writer-{n}", options, self._prefix, self._history) for n in range(self.writers)
        ]
        self._leases = LeaseHolder("holder", options, self._history)
        admin = client_options(self._settings, "admin")
        direct += [HttpWriter(f"client-{n}", admin, self._prefix, self._history) for n in range(self.http_writers)]
        busy = {"owner": owner(admin)} if self._has_workloads else {}
        return {each.name: each.main() for each in (*direct, self._leases)} | busy

    def _make_readers(self) -> dict[str, Main]:
        if not self.servers:
            return {}
        admin = client_options(self._settings, "admin")
        watchers = {f"watcher-{n}": HttpWatcher(admin, self._history).main() for n in range(self.watchers)}
        return {**watchers, "informer": informer(admin), **({"nodes": nodes(admin)} if self._has_workloads else {})}

    def begin(self) -> None:
        self._settings.layout.run.mkdir(parents=True, exist_ok=True)
        Machine(self._world, (SUPERVISOR, *self.supervised))
        if self._cluster:
            self._cluster.begin()
        self._supervision = Supervision(self._world, self._plan())
        self._world.kill_by_fault = self._supervision.kill
        self._world.on_end.append(self._restart)
        for name in (SUPERVISOR, *self._clients):
            self._world.spawn(name)

    def _plan(self) -> Plan:
        followers = [child("follower", CONTROL, f"follower-{n}") for n in range(self.followers)]
        busy = [child(name, CONTROL) for name in ("controllers", "scheduler") if self._has_workloads]
        servers = map(watcher, range(self.servers))
        store = [] if self._cluster else [child("store", CONTROL)]
        specs = (*store, child("watchcache", CONTROL), *servers, *followers, *busy)
        return Plan(specs=specs, settings=self._settings)

    def _restart(self, process: Process, code: int, signal: int) -> None:
        name, world = process.name, self._world
        if name not in self._clients or (self._quiet and name not in self._readers):
            return
        delay = world.random("restarts").uniform(*RESTART_S)
        world.at(delay, None, lambda: name in world.processes or world.spawn(name))

    def quiesce(self) -> None:
        self._quiet = True
        self._supervision.start_failed()
        for name in self._clients:
            if name not in self._readers:
                self._world.kill(name)

    def check(self) -> list[Broken]:
        found = Oracle(self._world, self._history, self._prefix, self.targets).check()
        found += self._leases.check()
        return found + list(broken(self._history.stored("replicasets", "pods"))) if self._has_workloads else found

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
    etcd_share = 0.0

"""A control plane: its store or a model of an etcd, its actors and their supervisor, on one machine of the world."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import msgspec
from msgspec.structs import replace

from actors.apiserver.actor import ApiServer
from actors.apiserver.table import TABLE
from actors.controllers.actor import Controllers
from actors.scheduler.actor import Scheduler
from actors.store.actor import StoreActor
from actors.store.file.object_log import ObjectLog
from actors.store.server import grpc_server
from actors.watchcache.actor import WatchcacheActor
from protocols.actor.shell import Factory
from protocols.process.settings import Settings
from supervisor.base.groups import CONTROL, ChildSpec, SupervisionLimits, child, watcher
from tests.simulation.control.followers import FollowerActor
from tests.simulation.control.history import History
from tests.simulation.control.limits import draw_control
from tests.simulation.control.servers import install_servers
from tests.simulation.disk.machine import DISK_FAULTS, Machine
from tests.simulation.etcd.cluster import ENDPOINTS, Cluster
from tests.simulation.etcd.faults import BUMP, ETCD_FAULTS, EtcdFaults
from tests.simulation.model import Main
from tests.simulation.world.actors import actor
from tests.simulation.world.patching import patch
from tests.simulation.world.supervision import Plan, Supervision, drawn_limits
from tests.support.settings import plane_settings

if TYPE_CHECKING:
    from tests.simulation.world.world import World


class ControlShape(msgspec.Struct, frozen=True, kw_only=True):
    servers: int
    followers: int = 0
    """Replicas beside those of API servers, with nothing else to do."""
    beside: tuple[str, ...] = ()
    """Resources, beside ConfigMaps, of which each follower has a replica."""
    works: bool
    """True with controllers and scheduler."""
    bumps: tuple[int, ...] = (BUMP,)
    """By how much the revision of an etcd is raised that is restored from a backup: 0 repeats revisions."""
    etcd_share: float = 0.0
    """Share of seeds with the model of an etcd in place of the embedded store."""
    draws_budget: bool = True
    """False where the number of crashes is not drawn: the real budget is for it."""


class NoGrpcServer:
    """Stands for the store's public gRPC server: everybody here uses the private endpoint."""

    def __init__(self, *_: Any, **__: Any) -> None: ...
    def add_generic_rpc_handlers(self, handlers: Any) -> None: ...

    def add_insecure_port(self, address: str) -> int:
        return 1

    async def start(self) -> None: ...
    async def stop(self, grace: float) -> None: ...


class _Grpc:
    """Stands for the module grpc where the store makes its server."""

    aio = type("aio", (), {"server": NoGrpcServer})

    def __getattr__(self, name: str) -> Any:
        return getattr(grpc, name)


class ControlPlane:
    def __init__(self, world: "World", root: Path, shape: ControlShape) -> None:
        self.world, self.shape = world, shape
        self.settings: Settings = plane_settings(root)
        self.history = History(world)
        patch(grpc_server, "grpc", _Grpc())
        self.cluster = self._make_cluster()
        self.faults = ETCD_FAULTS if self.cluster else DISK_FAULTS
        """Kinds of faults that its store may have."""
        draw_control(world)
        install_servers(world, self.settings)
        self.history.record_commits()
        self.history.record_restores()
        self.history.record_skips()
        self.history.record_answers()
        self.row = TABLE.of("configmaps")
        self.processes = self._processes()

    def _make_cluster(self) -> Cluster | None:
        world = self.world
        chosen = world.random("etcd").random() < self.shape.etcd_share
        world.limits["etcd"] = float(chosen)
        if not chosen:
            return None
        self.settings = replace(
            self.settings,
            store_endpoints=ENDPOINTS,
            store_embedded=False,
            etcd_compaction_s=int(world.draw("etcd_compaction_s", 2, 20, 300)),
            leader_elect=bool(world.draw("leader_elect", 0, 1)),
        )
        cluster = Cluster(world, self.history.on_disk)
        EtcdFaults(cluster, self.shape.bumps)
        cluster.on_restore.append(self.history.restored)
        return cluster

    def _processes(self) -> dict[str, Main]:
        settings, shape = self.settings, self.shape
        rows = [self.row, *map(TABLE.of, shape.beside)]
        follower = partial(FollowerActor, rows=rows, history=self.history, world=self.world)
        working: dict[str, Factory] = {"controllers": Controllers, "scheduler": Scheduler} if shape.works else {}
        storing: dict[str, Factory] = {} if self.cluster else {"store": StoreActor}
        made: dict[str, Factory] = {**working, **storing, "watchcache": WatchcacheActor}
        made |= {f"apiserver-{n}": ApiServer for n in range(shape.servers)}
        made |= {f"follower-{n}": follower for n in range(shape.followers)}
        return {name: actor(name, factory, settings) for name, factory in made.items()}

    def begin(self, supervisor: str, beside: tuple[ChildSpec, ...] = (), sharing: tuple[str, ...] = ()) -> Supervision:
        """Start its store and supervisor, which starts others `beside` it; `sharing` lose power with its machine."""
        self.settings.layout.run.mkdir(parents=True, exist_ok=True)
        if self.cluster:
            self.cluster.begin()
        else:
            machine = Machine(self.world, self.settings.layout.root, (supervisor, *self.processes, *sharing))
            self._cut_power_within(machine, "open", int(self.world.draw("first_open_cut", 5, 15, 25, 35, 0, 0, 0)))
            self._cut_power_within(machine, "commit", int(self.world.draw("first_commit_cut", 2, 3, 4, 0, 0)))
        limits = drawn_limits(self.world) if self.shape.draws_budget else SupervisionLimits()
        plan = Plan(specs=(*self._specs(), *beside), settings=self.settings, limits=limits)
        supervision = Supervision(self.world, plan)
        self.world.spawn(supervision.name)
        return supervision

    def _cut_power_within(self, machine: Machine, method: str, calls: int) -> None:
        """Cut the power within a new store's first call of a method, at that call which changes the disk; 0: do not."""
        own = getattr(ObjectLog, method)

        def cut(log: ObjectLog, *args: Any) -> Any:
            patch(ObjectLog, method, own)
            machine.cut_power_at_call(calls)
            return own(log, *args)

        if calls:
            patch(ObjectLog, method, cut)

    def _specs(self) -> tuple[ChildSpec, ...]:
        shape = self.shape
        store = [] if self.cluster else [child("store", CONTROL)]
        followers = [child("follower", CONTROL, f"follower-{n}") for n in range(shape.followers)]
        working = [child(name, CONTROL) for name in ("controllers", "scheduler") if shape.works]
        return (*store, child("watchcache", CONTROL), *map(watcher, range(shape.servers)), *followers, *working)

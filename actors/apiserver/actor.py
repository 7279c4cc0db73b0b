"""One API server process: REST over HTTPS from replicas of the watch cache, writes to the etcd API.

N of these share one port, so that one may die or be replaced while the others serve. It owns nothing: kill -9 loses
open connections and half-answered requests, never an acknowledged write nor a client's place in a watch.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial

from prometheus_client import CollectorRegistry

from actors.apiserver.api.request.workers import prepare_process
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.authorization.node_graph import NodeGraph
from actors.apiserver.authorization.node_rules import NodeRules
from actors.apiserver.authorization.rbac.feed import PolicyFeed
from actors.apiserver.bootstrap.kubernetes_service import ApiAddress, KubernetesService
from actors.apiserver.bootstrap.repair import repair
from actors.apiserver.bootstrap.roles import Bootstrap
from actors.apiserver.custom.controller import DefinitionController, names_by_group
from actors.apiserver.custom.serving import Serving
from actors.apiserver.http.authentication.authenticator import Authenticator
from actors.apiserver.http.authentication.token_authority import AuthorityOptions, TokenAuthority
from actors.apiserver.http.endpoints.evictions import Evicting
from actors.apiserver.http.endpoints.nonresource import Check, Health, NonResource, NonResourceOptions, OpenId
from actors.apiserver.http.endpoints.reading import Reading, Watching
from actors.apiserver.http.endpoints.reviews import Reviews
from actors.apiserver.http.endpoints.subresources import Scaling
from actors.apiserver.http.endpoints.token_requests import Tokens
from actors.apiserver.http.endpoints.writing import Writing
from actors.apiserver.http.fairness.control import FlowControl, LongRunning
from actors.apiserver.http.fairness.metrics import FlowMetrics
from actors.apiserver.http.nodes.backends import Backends
from actors.apiserver.http.nodes.client import NodeClient, NodeClientOptions
from actors.apiserver.http.nodes.connecting import Connecting
from actors.apiserver.http.nodes.usage import Usage
from actors.apiserver.http.routing.handler import Handler, HandlerOptions
from actors.apiserver.http.routing.route import Endpoints
from actors.apiserver.http.routing.seats import Seats
from actors.apiserver.http.routing.server import Server, ServerOptions
from actors.apiserver.http.routing.stalled import LoopMonitor, LoopMonitorOptions, StalledRequests, cause_of
from actors.apiserver.http.telemetry.audit import AuditLog
from actors.apiserver.http.telemetry.metrics import RequestMetrics, WatchMeter, WatchMetrics
from actors.apiserver.http.telemetry.shutdown_bookmarks import ShutdownBookmarks
from actors.apiserver.reads.lookups import Lookups
from actors.apiserver.reads.metrics import ReadMetrics
from actors.apiserver.reads.reader import Reader
from actors.apiserver.replica.metrics import ReplicaCollector, ReplicaStatus
from actors.apiserver.replica.own_writes import OwnWrites
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.waiters import ProgressRequester
from actors.apiserver.storage.metrics import StoreMetrics
from actors.apiserver.storage.storage import Storage
from actors.apiserver.storage.stores import Stores
from actors.apiserver.table import TABLE, served
from actors.apiserver.watch.catalog import Catalog, CatalogOptions
from actors.apiserver.writes.admission.admission import Admission
from actors.apiserver.writes.admission.claims import GATE as CLAIM_RIGHTS
from actors.apiserver.writes.admission.policies.admission import PolicyAdmission, PolicyOptions
from actors.apiserver.writes.admission.policies.index import PolicyIndex
from actors.apiserver.writes.admission.quota import QuotaAdmission
from actors.apiserver.writes.admission.rule import NEEDS, Dependencies
from actors.apiserver.writes.admission.service_accounts import PLUGIN
from actors.apiserver.writes.budgets import Budgets
from actors.apiserver.writes.path.steps import WritePath
from protocols.actor import Context, run_actor
from protocols.actor.metrics_text import page
from protocols.cel.worker.process import with_worker
from protocols.errors import NodeplaneError
from protocols.kinds.rbac.policy_rule import GROUP as RBAC_GROUP
from protocols.kinds.served.row import Table
from protocols.kinds.services import network
from protocols.kinds.services.services import ServiceStrategy, service_networks
from protocols.kube.meta import Object

FRESH_BEFORE_STOP = 2.0
"""Seconds in which a stopping process brings its replicas to the store's revision, for fresh last bookmarks."""
DRAIN_SECONDS = 2.0


class Metrics:
    """All metrics of this process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = RequestMetrics(registry)
        self.watches = WatchMetrics(registry, self.requests)
        self.reads = ReadMetrics(registry)
        self.flows = FlowMetrics(registry)
        self.store = StoreMetrics(registry)


class ApiServer:
    """All parts of one API server process, joined; `start` listens once replicas follow the watch cache."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._stores = Stores(context.settings, context.layout)
        self._metrics = Metrics(context.registry)
        self._storage = Storage(self._stores, self._metrics.store)
        self._efficient = context.settings.gate("EfficientWatchResumption")
        numbers = range(len(context.settings.stores))
        self._progress = [ProgressRequester(context.bus, number, context.spawn) for number in numbers]
        self._own_writes = [OwnWrites() for _ in numbers]
        for row in TABLE.built_in:
            row.strategy.gate = context.settings.gate
        self._catalog = Catalog(Table(served(context.settings.disabled_versions)), self._catalog_options())
        self._storage.on_written = self._catalog.on_written
        self.replicas = self._catalog.replicas
        self._configure_services()
        context.registry.register(ReplicaCollector(self._replica_statuses))
        self._lookups = Lookups(self.replicas, self._storage)
        self._authenticator = Authenticator(
            self._authorizer(), self._authority(), AuditLog(context.layout.logs / "audit.log", context.registry)
        )
        reader = Reader(self._storage, self.replicas, self._metrics.reads, self._efficient)
        self._long_running = LongRunning()
        self._stalled = StalledRequests(context.layout.run)
        bookmarks = context.layout.run / f"{context.instance}.bookmarks"
        self._shutdown_bookmarks = ShutdownBookmarks(bookmarks, self._metrics.watches.last)
        self._monitor = LoopMonitor(self._monitor_options())
        self._watching = Watching(reader, self._catalog.hubs, self._metrics.watches, self._long_running)
        self._nodes = NodeClient(self._node_client_options())
        self._policies = self._policy_admission()
        self._admission = self._made_admission(reader)
        slices = self._lookups.all_of("endpointslices")
        backends = Backends(self._lookups.stored, slices, context.settings.advertise_address)
        self._connecting = Connecting(reader, self._nodes, self._lookups.stored, self._admission, backends)
        self._serving = Serving(self._catalog, reader.fresh if self._efficient else None)
        self._definition_controller = self._build_definition_controller()
        self._server = self._listener(self._handler(reader))
        self._watching.reuse = self._server.reuse
        self._server.on_distrust = self._end_untrusted

    async def start(self) -> None:
        prepare_process()
        await self._stores.start()
        self._catalog.start()
        self._stalled.read()
        await asyncio.to_thread(self._shutdown_bookmarks.restore)
        self._monitor.start()
        await self._server.start()
        self._context.note("waiting for the watch cache")
        self._context.spawn(self._become_ready(), "become-ready")

    async def stop(self) -> None:
        """Stop listening, then end each watch cleanly after a last, fresh bookmark."""
        self._watching.closing = True
        await self._server.stop_listening()
        if self._efficient:
            with suppress(NodeplaneError, TimeoutError):
                async with asyncio.timeout(FRESH_BEFORE_STOP):
                    await asyncio.gather(*(self._freshen(replica) for replica, _ in self._catalog.watched()))
        for hub in self._catalog.hubs.values():
            hub.close(bookmarks=self._efficient)
        await asyncio.to_thread(self._shutdown_bookmarks.store)
        await self._drain()
        self._watching.close()
        await self._server.close()
        await self._connecting.close()
        await self._policies.close()
        await self._authenticator.audit.close()
        await self._stores.close()
        self._monitor.close()

    def _end_untrusted(self) -> None:
        for hub in self._catalog.hubs.values():
            hub.end_untrusted()

    async def _become_ready(self) -> None:
        for row in self._catalog.table.stored:
            await self.replicas[row.store].wait_filled()
        self._serving.refresh()
        for row in self._catalog.table.custom:
            with suppress(NodeplaneError):
                await self._serving.filled(row)
        self._context.ready(f"serving {self._context.settings.api_url}")
        bootstrap = Bootstrap(self._storage, self.replicas, self._authorities, self._served_versions)
        self._context.spawn(self._create_defaults(bootstrap), "bootstrap")
        self._context.spawn(self._definition_controller.run(self._context.spawn), "definitions")

    async def _create_defaults(self, bootstrap: Bootstrap) -> None:
        settings = self._context.settings
        await bootstrap.run()
        with suppress(NodeplaneError, TimeoutError):  # done again at the next start
            await repair(self._storage, self.replicas["services"])
        address = ApiAddress(
            settings.advertise_address, settings.port, settings.service_cluster_ip_range, settings.leader_elect
        )
        await KubernetesService(self._storage, self.replicas, address).run()

    def _served_versions(self) -> dict[str, list[str]]:
        return Table(self._catalog.table.built_in).versions()

    def _authorities(self) -> tuple[str, str]:
        layout = self._context.layout
        front = layout.front_proxy_ca.read_text() if layout.front_proxy_ca.exists() else ""
        return layout.ca_cert.read_text(), front

    async def _drain(self) -> None:
        """Wait until all watches have ended, but not longer than DRAIN_SECONDS for clients that do not read."""
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await asyncio.gather(*(hub.empty.wait() for hub in self._catalog.hubs.values()))

    async def _freshen(self, replica: Replica) -> None:
        await replica.wait_for(await self._storage.revision(replica.resource), FRESH_BEFORE_STOP)

    def _configure_services(self) -> None:
        strategy, objects = network.SERVICES.strategy, self.replicas["services"].objects
        assert isinstance(strategy, ServiceStrategy)
        strategy.ranges = service_networks(self._context.settings.service_cluster_ip_range)
        strategy.services = lambda: [stored.obj for stored in objects.below("")]

    def _catalog_options(self) -> CatalogOptions:
        return CatalogOptions(
            bus=self._context.bus,
            meter_of=lambda row: WatchMeter(self._metrics.watches, row),
            progress_of=lambda row: self._progress[self._stores.number_of(row)].request_progress,
            own_writes_of=lambda row: self._own_writes[self._stores.number_of(row)],
        )

    def _build_definition_controller(self) -> DefinitionController:
        turn = self._context.instance.rpartition("-")[2]
        built_in = names_by_group(self._catalog.table.built_in)
        return DefinitionController(
            self._storage, self._serving.definitions, built_in, int(turn) if turn.isdigit() else 0
        )

    def _handler(self, reader: Reader) -> Handler:
        address = self._context.settings.api_url.removeprefix("https://")
        authenticator = self._authenticator
        path = WritePath(self._storage, self.replicas, self._admission)
        budgets = self.replicas["poddisruptionbudgets.policy"]
        writing = Writing(path, reader)
        endpoints = Endpoints(
            reading=Reading(reader),
            writing=writing,
            scaling=Scaling(reader, writing),
            evicting=Evicting(path, Budgets(self._storage, budgets), partial(reader.fresh, budgets.resource)),
            watching=self._watching,
            connecting=self._connecting,
            reviews=Reviews(authenticator.authorizer, authenticator.authority),
            usage=Usage(self._nodes, self._all_nodes, self._lookups.of("pods")),
            tokens=Tokens(
                authenticator.authority,
                authenticator.authorizer,
                self._catalog.table,
                self._lookups.stored,
                self._admission,
            ),
        )
        options = HandlerOptions(
            table=self._catalog.table,
            authenticator=authenticator,
            endpoints=endpoints,
            nonresource=NonResource(self._nonresource(address)),
            serving=self._serving,
            seats=Seats(FlowControl(self._metrics.flows), self._long_running, self._stalled, self.replicas),
            metrics=self._metrics.requests,
            newest_pods=partial(reader.fresh, self.replicas["pods"].resource),
        )
        return Handler(options)

    def _nonresource(self, address: str) -> NonResourceOptions:
        return NonResourceOptions(
            table=self._catalog.table,
            health=Health(self._checks()),
            openid=OpenId(self._authenticator.authority, address),
            metrics=partial(page, self._context.registry),
            address=address,
        )

    def _made_admission(self, reader: Reader) -> Admission:
        settings, lookups = self._context.settings, self._lookups
        account = partial(lookups.newest, "serviceaccounts")
        given = Dependencies(
            authorizer=self._authenticator.authorizer,
            nodes=lookups.of("nodes"),
            service_account=None if PLUGIN in settings.disable_admission_plugins else account,
            runtime_class=partial(lookups.newest, "runtimeclasses", ""),
            limit_ranges=lookups.all_of("limitranges"),
            priority_classes=partial(lookups.all_of("priorityclasses"), ""),
            storage_classes=partial(lookups.all_of("storageclasses"), ""),
            priority_class=partial(lookups.newest, "priorityclasses", ""),
            quotas=QuotaAdmission(self._storage, self.replicas["resourcequotas"]),
            policies=self._policies,
            claim_rights=settings.gate(CLAIM_RIGHTS),
            newest_roles=partial(self._newest_roles, reader),
            known=lookups.known(NEEDS),
        )
        return Admission(given)

    async def _newest_roles(self, reader: Reader) -> None:
        if self._efficient:
            rows = [replica.resource for replica in self.replicas.values() if replica.resource.group == RBAC_GROUP]
            await asyncio.gather(*map(reader.fresh, rows))

    def _policy_admission(self) -> PolicyAdmission:
        table, replicas = self._catalog.table, self.replicas
        options = PolicyOptions(
            authorizer=self._authenticator.authorizer,
            namespace=partial(self._lookups.newest, "namespaces", ""),
            find=table.of_kind,
            below=lambda row, prefix: replicas[row.store].objects.below(prefix),
            service=self._lookups.of("services"),
            slices=self._lookups.all_of("endpointslices"),
        )
        return PolicyAdmission(PolicyIndex(replicas, table), options)

    def _all_nodes(self) -> Iterator[Object]:
        return (stored.obj for stored in self.replicas["nodes"].objects.below(""))

    def _authorizer(self) -> Authorizer:
        pods, volumes = self.replicas["pods"].objects, self.replicas["persistentvolumes"].objects
        graph = NodeGraph(lambda namespace: pods.below(f"{namespace}/"), pods.get, lambda: volumes.below(""))
        of = self._lookups.of
        shown = of("persistentvolumes"), of("volumeattachments")
        nodes = NodeRules(of("pods"), of("resourceslices"), graph.uses, *shown)
        by_kind = {replica.resource.kind: replica for replica in self.replicas.values()}
        return Authorizer(nodes, PolicyFeed(by_kind).policy)

    def _authority(self) -> TokenAuthority:
        pki, look = self._context.layout.pki, self._lookups
        files, known = (pki / "sa.key", pki / "tokens.csv"), look.known(("secrets",))
        options = AuthorityOptions(*files, shown=look.shown, stored=look.stored, secrets_known=known)
        return TokenAuthority(options)

    def _checks(self) -> dict[str, Check]:
        return {**self._stores.checks(), "replicas": self._check_replicas, "shutdown": self._check_shutdown}

    async def _check_replicas(self) -> str:
        stores = [row.store for row in self._catalog.table.stored]
        empty = [store for store in stores if not self.replicas[store].filled]
        return f"not synced: {', '.join(empty)}" if empty else ""

    async def _check_shutdown(self) -> str:
        return "this process is leaving" if self._watching.closing else ""

    def _replica_statuses(self) -> Iterable[ReplicaStatus]:
        newest = self._metrics.store.newest
        for replica in tuple(self.replicas.values()):
            yield ReplicaStatus(replica, newest.get(self._stores.number_of(replica.resource), 0))

    def _monitor_options(self) -> LoopMonitorOptions:
        context = self._context
        return LoopMonitorOptions(
            run=context.layout.run, instance=context.instance, find=cause_of, each_round=self._stalled.read
        )

    def _node_client_options(self) -> NodeClientOptions:
        layout = self._context.layout
        cert, key = layout.client_cert("apiserver-kubelet-client")
        insecure = self._context.settings.kubelet_insecure_tls
        return NodeClientOptions(cert=cert, key=key, ca=layout.ca_cert, insecure=insecure)

    def _listener(self, handler: Handler) -> Server:
        return Server(self._server_options(), handler)

    def _server_options(self) -> ServerOptions:
        layout = self._context.layout
        cert, key = layout.client_cert("apiserver")
        settings = self._context.settings
        return ServerOptions(
            host=settings.bind_address, port=settings.port, cert=cert, key=key, client_ca=layout.ca_cert
        )


def main(argv: list[str] | None = None) -> None:
    run_actor("apiserver", with_worker(ApiServer), argv)


if __name__ == "__main__":
    main()

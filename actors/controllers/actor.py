"""controllers: keeps namespaces as clients expect them, tells when a node went silent, collects what lost its owners,
makes claims of devices and frees them, ends pods whose devices were tainted.

Why a process: what it does is nobody's way of doing something else; it may lag or die and only chores wait.
Owns: nothing.
On kill -9: chores wait; each is decided anew from the API. Where other control planes use the same store only the one
that holds the lease works, and this one takes over when that ends.
"""

import asyncio

from actors.controllers.collector import Collector, CollectorHandler, slim
from actors.controllers.definitions import DefinitionsHandler
from actors.controllers.device_work import DeviceWork
from actors.controllers.handlers import Handlers
from actors.controllers.keeper import ContentHandler, Known, NamespaceKeeper
from actors.controllers.kinds import Kinds, slim_definition
from actors.controllers.namespaces import ROOT_CA
from actors.controllers.node_keeper import NodeKeeper
from actors.controllers.pod_keeper import PodKeeper
from protocols.actor import Context, run_actor
from protocols.actor.candidate import candidate
from protocols.kube.client import ApiClient, ClientOptions
from protocols.kube.informer import Handler, Informer, InformerOptions
from protocols.kube.resources import (
    ALL,
    CONFIGMAPS,
    DEFINITIONS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SERVICEACCOUNTS,
    Resource,
)

SYNC_S = 3600.0
CUSTOM_S = 30.0
"""Longest wait for custom resources: one of them may be served no more by the time it is asked for."""
LEASE = "kube-controller-manager"
PARTIAL = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
METADATA_ONLY = f"{PARTIAL.format('List')},{PARTIAL.format('')}"


class Controllers:
    def __init__(self, context: Context) -> None:
        self._context = context
        cert, key = context.layout.client_cert("controllers")
        ca = context.layout.ca_cert
        server = context.settings.api_url
        self._client = ApiClient(ClientOptions(server=server, ca=ca, cert=cert, key=key))
        self._metadata = ApiClient(ClientOptions(server=server, ca=ca, cert=cert, key=key, accept=METADATA_ONLY))
        self._informers: list[Informer] = []
        known, kinds = Known(), Kinds()
        self._keeper = NamespaceKeeper(self._client, ca.read_text(), context.log, known, kinds)
        self._node_keeper = NodeKeeper(self._client, context.log)
        content = ContentHandler(self._keeper)
        self._collector = Collector(self._client, context.log, kinds)
        self._custom = DefinitionsHandler(kinds, self._metadata, self._collector, context.spawn)
        self._pod_keeper = PodKeeper(self._client, context.log, self._keeper.emptier)
        known.namespaces = self._inform(NAMESPACES, self._keeper).items
        known.accounts = self._inform(SERVICEACCOUNTS, content, field="metadata.name=default").items
        known.roots = self._inform(CONFIGMAPS, content, field=f"metadata.name={ROOT_CA}").items
        self._node_keeper.nodes = self._inform(NODES, Handlers(self._node_keeper, self._pod_keeper.nodes)).items
        self._inform(LEASES, self._node_keeper.leases, namespace="kube-node-lease")
        options = InformerOptions(keep=slim_definition)
        self._informers.append(Informer(self._client, DEFINITIONS, options, self._custom))
        self._device_work = DeviceWork(self._client, context)
        self._owned = [self._follow(resource) for resource in ALL if resource is not EVENTS]
        self._pod_keeper.known = self._node_keeper.nodes
        self._leader = candidate(context, self._client, LEASE)

    def _inform(self, resource: Resource, handler: Handler, namespace: str = "", field: str = "") -> Informer:
        options = InformerOptions(namespace=namespace, field_selector=field)
        self._informers.append(Informer(self._client, resource, options, handler))
        return self._informers[-1]

    def _follow(self, resource: Resource) -> Informer:
        """Every object may own and be owned; only its metadata is sent and kept, save of those others work with."""
        handler: Handler = CollectorHandler(self._collector, resource)
        others = (self._pod_keeper,) if resource is PODS else ()
        informer = self._device_work.follow(resource, handler, *others)
        if informer is None:
            return Informer(self._metadata, resource, InformerOptions(keep=slim), handler)
        if resource is PODS:
            self._pod_keeper.pods = informer.items
        return informer

    async def start(self) -> None:
        await self._client.start()
        await self._metadata.start()
        for number, informer in enumerate(self._informers):
            self._context.spawn(informer.run(), f"informer-{number}")
        self._context.spawn(self._run(), "namespaces")

    async def stop(self) -> None:
        if self._leader:
            await self._leader.release()
        await self._metadata.close()
        await self._client.close()

    async def _run(self) -> None:
        await asyncio.gather(*(informer.wait_synced(SYNC_S) for informer in self._informers))
        if self._leader:
            self._context.ready()
            await self._leader.lead(self._context.note)
            self._context.spawn(self._leader.keep(), "lease")
        self._keeper.look("default")
        self._context.spawn(self._node_keeper.run(), "nodes")
        if not self._leader:
            self._context.ready()
        self._context.spawn(self._collect(), "garbage")
        await self._keeper.run()

    async def _collect(self) -> None:
        """After the start, which it must not delay: nothing is decided before all objects are known."""
        for number, informer in enumerate(self._owned):
            self._context.spawn(informer.run(), f"owned-{number}")
        await asyncio.gather(*(informer.wait_synced(SYNC_S) for informer in self._owned))
        await self._custom.begin(CUSTOM_S)
        self._context.spawn(self._pod_keeper.run(), "pods")
        self._context.spawn(self._collector.run(), "collector")
        await self._device_work.begin(self._context.spawn, SYNC_S)


def main(argv: list[str] | None = None) -> None:
    run_actor("controllers", Controllers, argv)


if __name__ == "__main__":
    main()

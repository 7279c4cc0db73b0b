"""controllers: run the namespace, node, pod, garbage, claim and device taint controllers.

A process of its own because no other process waits for its work: it may lag or die without delaying an API call.
Owns nothing. On kill -9 the controllers decide everything again from the API. Where other control planes use the same
store, only the process that holds the lease works, and another takes over when the lease expires.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from actors.controllers.claims.controller import ClaimKeeper
from actors.controllers.claims.metrics import ClaimMetrics
from actors.controllers.common.informers import Changes, Handlers, slim
from actors.controllers.common.kinds import Kinds, slim_definition
from actors.controllers.garbage.collector import Collector, CollectorHandler
from actors.controllers.garbage.custom_resources import DefinitionsHandler
from actors.controllers.lifecycle.namespaces import ROOT_CA, ContentHandler, Known, NamespaceKeeper
from actors.controllers.lifecycle.nodes import NodeKeeper
from actors.controllers.lifecycle.pod_gc import PodKeeper, slim_pod
from actors.controllers.taints.eviction import EvictionMetrics, Evictor
from protocols.actor import Context, run_actor
from protocols.actor.candidate import candidate
from protocols.dra.feed import Feed
from protocols.dra.patching.types import Gates
from protocols.kube.client import ApiClient, ClientOptions
from protocols.kube.events import EventRecorder, RecorderOptions
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
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    SERVICEACCOUNTS,
    Resource,
)

Spawn = Callable[[Coroutine[Any, Any, None], str], Any]
SYNC_S = 3600.0
CUSTOM_S = 30.0
"""Longest wait for custom resources: one of them may be served no more by the time it is asked for."""
LEASE = "kube-controller-manager"
PARTIAL = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
METADATA_ONLY = f"{PARTIAL.format('List')},{PARTIAL.format('')}"


class DeviceWork:
    def __init__(self, client: ApiClient, context: Context) -> None:
        self._client = client
        settings = context.settings
        gates = Gates(settings.gate("DRAAdminControlledDeviceAttributes"), settings.gate("DRADeviceTaints"))
        self._recorders = [
            EventRecorder(client, RecorderOptions(component=name))
            for name in ("resource_claim", "device-taint-eviction")
        ]
        claims, evictions = self._recorders
        self.claims = ClaimKeeper(client, claims, context.log, ClaimMetrics(context.registry))
        self.evictor = Evictor(client, evictions, EvictionMetrics(context.registry), context.log)
        rules = Changes(self.evictor.rule_changed, self.evictor.rule_gone)
        self._feed = Feed(client, gates, self.evictor, context.log, rules=rules)
        self._evicts = gates.taints

    def follow(self, resource: Resource, collector: Handler, *others: Handler) -> Informer | None:
        """An informer of what is worked with here, which tells the collector as well; None for anything else."""
        if resource is PODS:
            pods = self._informer(resource, InformerOptions(keep=slim_pod), collector, *others, *self._pods())
            self.claims.pods = self.evictor.users.pods = pods.items
            return pods
        if resource is RESOURCECLAIMS:
            claims = self._informer(resource, InformerOptions(), collector, *others, *self._claims())
            self.claims.claims = self.evictor.users.claims = claims.items
            return claims
        if resource is RESOURCECLAIMTEMPLATES:
            told = Changes(self.claims.template_changed, lambda template: None)
            templates = self._informer(resource, InformerOptions(), collector, *others, told)
            self.claims.templates = templates.items
            return templates
        return None

    async def begin(self, spawn: Spawn, timeout: float) -> None:
        """Once pods, claims and templates are known."""
        for recorder in self._recorders:
            spawn(recorder.run(), "device events")
        spawn(self.claims.run(), "claims")
        if not self._evicts:
            return
        for number, informer in enumerate(self._feed.informers):
            spawn(informer.run(), f"devices-{number}")
        spawn(self._feed.run(), "slices")
        await self._feed.wait_synced(timeout)
        spawn(self.evictor.run(), "evictions")

    def _informer(self, resource: Resource, options: InformerOptions, *handlers: Handler) -> Informer:
        return Informer(self._client, resource, options, Handlers(*handlers))

    def _pods(self) -> tuple[Handler, ...]:
        claims = Changes(self.claims.pod_changed, self.claims.pod_gone)
        return (claims, Changes(self.evictor.pod_changed, self.evictor.pod_gone)) if self._evicts else (claims,)

    def _claims(self) -> tuple[Handler, ...]:
        claims = Changes(self.claims.claim_changed, self.claims.claim_gone)
        return (claims, Changes(self.evictor.claim_changed, self.evictor.claim_gone)) if self._evicts else (claims,)


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

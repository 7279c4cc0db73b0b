"""controllers: run the controllers of nodes, pods, workloads, services, claims, quotas, certificates and garbage.

A process of its own because no other process waits for its work: it may lag or die without delaying an API call.
Owns nothing. On kill -9 the controllers decide everything again from the API. Where other control planes use the same
store, only the process that holds the lease works, and another takes over when the lease expires.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from actors.controllers.certificates.controller import CertificateController
from actors.controllers.claims.controller import ResourceClaimController
from actors.controllers.claims.metrics import ClaimMetrics
from actors.controllers.common.informers import ChangeHandler, FanOut, trim_to_metadata
from actors.controllers.common.kinds import Kinds, trim_definition
from actors.controllers.common.pod_eviction import DEVICE_TAINTS, NODE_TAINTS, EvictionMetrics
from actors.controllers.garbage.collector import Collector, CollectorHandler
from actors.controllers.garbage.custom_resources import CustomResourceFollower
from actors.controllers.lifecycle.namespaces import (
    ROOT_CA,
    NamespaceCaches,
    NamespaceContentHandler,
    NamespaceController,
)
from actors.controllers.lifecycle.pod_gc import PodGarbageCollector, trim_pod
from actors.controllers.lifecycle.stale_disruptions import StaleDisruptionController
from actors.controllers.nodes.controller import LEASE_NAMESPACE, NodeController
from actors.controllers.nodes.pod_eviction import TaintEvictionController
from actors.controllers.policies.start import PolicyControllers
from actors.controllers.services.start import ServiceControllers
from actors.controllers.taints.eviction import EvictionController
from actors.controllers.workloads.start import Workloads
from protocols.actor import Context, run_actor
from protocols.cel.worker.process import with_worker
from protocols.dra.gates import gates_of
from protocols.dra.tracker.feed import SliceTracker
from protocols.kinds.table import (
    ALL,
    CERTIFICATESIGNINGREQUESTS,
    CONFIGMAPS,
    DEFINITIONS,
    DEVICETAINTRULES,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    RESOURCESLICEPATCHES,
    SERVICEACCOUNTS,
    Resource,
)
from protocols.kubeclient.client import ApiClient, ClientOptions
from protocols.kubeclient.election import leader_elector
from protocols.kubeclient.events import EventRecorder, RecorderOptions
from protocols.kubeclient.informer import Informer, InformerOptions, ResourceEventHandler
from protocols.kubeclient.part import acting_as

Spawn = Callable[[Coroutine[Any, Any, None], str], Any]
SYNC_S = 3600.0
CUSTOM_S = 30.0
"""Longest wait for custom resources: one that is no longer served never syncs."""
LEASE = "kube-controller-manager"
PARTIAL = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"
OPTIONAL = (DEVICETAINTRULES, RESOURCESLICEPATCHES)
"""Resources that a kube-apiserver may not serve, and then forbids to users without rights on them."""
METADATA_ONLY = f"{PARTIAL.format('List')},{PARTIAL.format('')}"


class DeviceControllers:
    """The claim and eviction controllers with the informers they share with garbage collection."""

    def __init__(self, client: ApiClient, context: Context) -> None:
        self._client = client
        settings = context.settings
        gates = gates_of(settings.gate)
        self._recorders = [
            EventRecorder(client, RecorderOptions(component=name))
            for name in ("resource_claim", "device-taint-eviction")
        ]
        claims, evictions = self._recorders
        self.claims = ResourceClaimController(client, claims, context.log, ClaimMetrics(context.registry))
        metrics = EvictionMetrics(context.registry, DEVICE_TAINTS)
        self.evictor = EvictionController(client, evictions, metrics, context.log)
        rules = ChangeHandler(self.evictor.rule_changed, self.evictor.rule_gone)
        self._feed = SliceTracker(client, gates, self.evictor, context.log, rules=rules)
        self.evictor.use_patches(self._feed.tracker.inputs.patches)
        self._evicts = gates.taints

    def follow(
        self, resource: Resource, collector: ResourceEventHandler, *others: ResourceEventHandler
    ) -> Informer | None:
        """Return an informer whose events reach these controllers and `collector`; None for other resources."""
        if resource is PODS:
            pods = self._informer(resource, InformerOptions(keep=trim_pod), collector, *others, *self._pods())
            self.claims.pods = self.evictor.users.pods = pods.items
            return pods
        if resource is RESOURCECLAIMS:
            claims = self._informer(resource, InformerOptions(), collector, *others, *self._claims())
            self.claims.claims = self.evictor.users.claims = claims.items
            return claims
        if resource is RESOURCECLAIMTEMPLATES:
            waiting = ChangeHandler(self.claims.template_changed, lambda template: None)
            templates = self._informer(resource, InformerOptions(), collector, *others, waiting)
            self.claims.templates = templates.items
            return templates
        return None

    async def begin(self, spawn: Spawn, timeout: float) -> None:
        """Start work. Call it after the informers of pods, claims and templates synced."""
        for recorder in self._recorders:
            spawn(recorder.run(), "device events")
        spawn(acting_as("resource-claim-controller", self.claims.run), "claims")
        if not self._evicts:
            return
        for number, informer in enumerate(self._feed.informers):
            spawn(informer.run(), f"devices-{number}")
        spawn(self._feed.run(), "slices")
        await self._feed.wait_synced(timeout)
        spawn(acting_as("device-taint-eviction-controller", self.evictor.run), "evictions")

    def _informer(self, resource: Resource, options: InformerOptions, *handlers: ResourceEventHandler) -> Informer:
        return Informer(self._client, resource, options, FanOut(*handlers))

    def _pods(self) -> tuple[ResourceEventHandler, ...]:
        claims = ChangeHandler(self.claims.pod_changed, self.claims.pod_gone)
        return (claims, ChangeHandler(self.evictor.pod_changed, self.evictor.pod_gone)) if self._evicts else (claims,)

    def _claims(self) -> tuple[ResourceEventHandler, ...]:
        claims = ChangeHandler(self.claims.claim_changed, self.claims.claim_gone)
        return (
            (claims, ChangeHandler(self.evictor.claim_changed, self.evictor.claim_gone)) if self._evicts else (claims,)
        )


class NodeControllers:
    """The controllers of nodes and of the pods on lost ones."""

    def __init__(self, client: ApiClient, context: Context) -> None:
        self._recorders = [
            EventRecorder(client, RecorderOptions(component=name))
            for name in ("node-controller", "taint-eviction-controller")
        ]
        nodes, evictions = self._recorders
        metrics = EvictionMetrics(context.registry, NODE_TAINTS)
        self.evictor = TaintEvictionController(client, evictions, metrics, context.log)
        grace_s = context.settings.node_monitor_grace_s
        self.nodes = NodeController(client, nodes, context.log, grace_s, self.evictor)
        self.pods = ChangeHandler(self.evictor.pod_changed, self.evictor.pod_gone)

    def begin(self, spawn: Spawn) -> None:
        """Start work on nodes. Call it after the informers of nodes and leases synced."""
        for recorder in self._recorders:
            spawn(recorder.run(), "node events")
        spawn(acting_as("node-controller", self.nodes.run), "nodes")


class Controllers:
    """All controllers with their shared informers; they work while this process leads."""

    def __init__(self, context: Context) -> None:
        self._context = context
        cert, key = context.layout.client_cert("controllers")
        ca = context.layout.ca_cert
        server = context.settings.api_url
        self._client = ApiClient(ClientOptions(server=server, ca=ca, cert=cert, key=key))
        self._metadata = ApiClient(ClientOptions(server=server, ca=ca, cert=cert, key=key, accept=METADATA_ONLY))
        self._informers: list[Informer] = []
        known, kinds = NamespaceCaches(), Kinds()
        self._namespaces = NamespaceController(self._client, ca.read_text(), context.log, known, kinds)
        self._node_controllers = NodeControllers(self._client, context)
        nodes = self._node_controllers.nodes
        content = NamespaceContentHandler(self._namespaces)
        self._garbage_events = EventRecorder(self._client, RecorderOptions(component="garbage-collector-controller"))
        self._collector = Collector(self._client, context.log, self._garbage_events, kinds)
        self._workloads = Workloads(self._client, context)
        self._services = ServiceControllers(self._client, context)
        self._policies = PolicyControllers(self._client, context, kinds.find)
        self._custom = CustomResourceFollower(kinds, self._metadata, self._collector, context.spawn, self._policies)
        self._pod_gc = PodGarbageCollector(self._client, context.log, self._namespaces.on_object_removed)
        self._stale_disruptions = StaleDisruptionController(self._client, context.log)
        known.namespaces = self._inform(NAMESPACES, self._namespaces).items
        known.accounts = self._inform(SERVICEACCOUNTS, content, field="metadata.name=default").items
        known.roots = self._inform(CONFIGMAPS, content, field=f"metadata.name={ROOT_CA}").items
        nodes.nodes = self._inform(NODES, FanOut(nodes, self._pod_gc.nodes, self._workloads)).items
        self._workloads.nodes = nodes.nodes
        self._node_controllers.evictor.nodes = nodes.nodes
        leases = self._inform(LEASES, nodes.leases, namespace=LEASE_NAMESPACE)
        nodes.watching = lambda: not leases.failure
        options = InformerOptions(keep=trim_definition)
        self._informers.append(Informer(self._client, DEFINITIONS, options, self._custom))
        self._devices = DeviceControllers(self._client, context)
        self._certificates = CertificateController(self._client, context.log, ca, context.layout.pki / "ca.key")
        self._owned = [self._follow(resource) for resource in ALL if resource is not EVENTS]
        self._pod_gc.known = nodes.nodes
        self._leader = leader_elector(context, self._client, LEASE)

    def _inform(
        self, resource: Resource, handler: ResourceEventHandler, namespace: str = "", field: str = ""
    ) -> Informer:
        options = InformerOptions(namespace=namespace, field_selector=field)
        self._informers.append(Informer(self._client, resource, options, handler))
        return self._informers[-1]

    def _follow(self, resource: Resource) -> Informer:
        """Return the informer for garbage collection; it fetches metadata only, unless other controllers need more."""
        handler: ResourceEventHandler = FanOut(
            CollectorHandler(self._collector, resource), *self._policies.handlers(resource)
        )
        for first in (self._workloads.first_object(resource), self._services.first_object(resource)):
            handler = handler if first is None else FanOut(handler, first)
        disruptions = ChangeHandler(self._stale_disruptions.pod_changed, self._stale_disruptions.pod_gone)
        others = (self._pod_gc, self._node_controllers.pods, disruptions) if resource is PODS else ()
        if resource is CERTIFICATESIGNINGREQUESTS:
            both = FanOut(handler, self._certificates)
            requests = Informer(self._client, resource, InformerOptions(optional=True), both)
            self._certificates.requests = requests.items
            return requests
        informer = self._devices.follow(resource, handler, *others)
        if informer is None:
            options = InformerOptions(keep=trim_to_metadata, cached=True, optional=resource in OPTIONAL)
            informer = Informer(self._metadata, resource, options, handler)
        self._policies.follow(resource, informer)
        if resource is PODS:
            self._pod_gc.pods = self._node_controllers.evictor.pods = informer.items
            self._stale_disruptions.pods = informer.items
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
            self._context.spawn(self._leader.renew(), "lease")
        self._namespaces.enqueue("default")
        self._node_controllers.begin(self._context.spawn)
        if not self._leader:
            self._context.ready()
        self._context.spawn(self._collect(), "garbage")
        self._context.spawn(self._workloads.run(), "workloads")
        await acting_as("namespace-controller", self._namespaces.run)

    async def _collect(self) -> None:
        """Start garbage collection in the background.

        It decides nothing before every resource that the API serves is listed.
        """
        for number, informer in enumerate(self._owned):
            self._context.spawn(informer.run(), f"owned-{number}")
        async with asyncio.timeout(SYNC_S):
            await asyncio.gather(*(informer.wait_known() for informer in self._owned))
        await self._custom.begin(CUSTOM_S)
        self._context.spawn(acting_as("pod-garbage-collector", self._pod_gc.run), "pods")
        disruptions = acting_as("disruption-controller", self._stale_disruptions.run)
        self._context.spawn(disruptions, "stale disruptions")
        self._node_controllers.nodes.enqueue_all()
        evictions = acting_as("taint-eviction-controller", self._node_controllers.evictor.run)
        self._context.spawn(evictions, "taint evictions")
        self._context.spawn(self._garbage_events.run(), "garbage events")
        self._context.spawn(acting_as("garbage-collector", self._collector.run), "collector")
        self._context.spawn(self._certificates.run(), "certificates")
        self._policies.lead()
        self._services.lead()
        await self._devices.begin(self._context.spawn, SYNC_S)


def main(argv: list[str] | None = None) -> None:
    run_actor("controllers", with_worker(Controllers), argv)


if __name__ == "__main__":
    main()

"""What controllers do for claims of devices: the claim keeper and the evictor, and the informers that tell them."""

from collections.abc import Callable, Coroutine
from typing import Any

from actors.controllers.changes import Changes
from actors.controllers.claims.keeper import ClaimKeeper
from actors.controllers.claims.metrics import ClaimMetrics
from actors.controllers.handlers import Handlers
from actors.controllers.pod_keeper import slim_pod
from actors.controllers.taints.evictor import Evictor
from actors.controllers.taints.metrics import EvictionMetrics
from protocols.actor import Context
from protocols.dra.feed import Feed
from protocols.dra.patching.types import Gates
from protocols.kube.client import ApiClient
from protocols.kube.events import EventRecorder, RecorderOptions
from protocols.kube.informer import Handler, Informer, InformerOptions
from protocols.kube.resources import PODS, RESOURCECLAIMS, RESOURCECLAIMTEMPLATES, Resource

COMPONENTS = ("resource_claim", "device-taint-eviction")
Spawn = Callable[[Coroutine[Any, Any, None], str], Any]


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

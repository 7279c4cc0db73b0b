"""Start the controllers of quotas, disruption budgets and admission policies when the first of each appears.

Garbage collection follows the metadata of every kind already, so a kind that nobody uses costs nothing here: the
controllers are not even imported.
"""

import asyncio
import importlib
from typing import TYPE_CHECKING

from actors.controllers.common.informers import FirstObject, LateHandler
from protocols.actor import Context
from protocols.kinds.table import PODDISRUPTIONBUDGETS, RESOURCEQUOTAS, VALIDATINGADMISSIONPOLICIES, Resource
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import Informer, ResourceEventHandler

if TYPE_CHECKING:
    from actors.controllers.policies.running import RunningPolicies
    from actors.controllers.policies.scales import FindKind

CONTROLLED = (RESOURCEQUOTAS, PODDISRUPTIONBUDGETS, VALIDATINGADMISSIONPOLICIES)


class PolicyControllers:
    """The controllers of CONTROLLED."""

    def __init__(self, client: ApiClient, context: Context, find: "FindKind") -> None:
        self._client, self._context, self._find = client, context, find
        self._metadata: dict[str, Informer] = {}
        self._forwards: dict[str, LateHandler] = {}
        self._running: RunningPolicies | None = None
        self._leads = asyncio.Event()

    def handlers(self, resource: Resource) -> tuple[ResourceEventHandler, ...]:
        """Return the handlers of the events of a resource's metadata."""
        forward = self._forwards[resource.full_name] = LateHandler()
        if self._running is not None:
            self._running.connect(resource.full_name, forward)
        if resource not in CONTROLLED:
            return (forward,)
        return (forward, FirstObject(lambda: self._when_leading(resource)))

    def follow(self, resource: Resource, informer: Informer) -> None:
        """Count the objects of an informer of metadata in quotas."""
        self._metadata[resource.full_name] = informer

    def lead(self) -> None:
        """Start work. Call it when this process leads."""
        self._leads.set()

    def _when_leading(self, resource: Resource) -> None:
        async def begin() -> None:
            await self._leads.wait()
            await asyncio.to_thread(importlib.import_module, "actors.controllers.policies.running")
            self._imported().begin(resource)

        self._context.spawn(begin(), "policies")

    def _imported(self) -> "RunningPolicies":
        if self._running is None:
            from actors.controllers.policies.running import RunningPolicies

            self._running = RunningPolicies(self._client, self._context, self._find, self._metadata)
            for resource, forward in self._forwards.items():
                self._running.connect(resource, forward)
        return self._running

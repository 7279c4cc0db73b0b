"""The plugins' Allocate: one call per container and resource, timed, its answer kept as it came."""

import logging
import time
from dataclasses import dataclass

from actors.devices.admission.plan import PodPlan
from actors.devices.errors import PluginFailed
from actors.devices.metrics import DeviceMetrics
from actors.devices.plugins.plugins import Plugins

Responses = dict[str, dict[str, bytes]]
"""By container, then resource."""


@dataclass(frozen=True)
class Allocator:
    plugins: Plugins
    metrics: DeviceMetrics
    log: logging.Logger

    async def all(self, plan: PodPlan) -> Responses:
        """In the order the devices were chosen; raises PluginFailed at the first that fails."""
        responses: Responses = {}
        for container, parts in plan.chosen.items():
            for resource, ids in parts.items():
                responses.setdefault(container, {})[resource] = await self._timed(resource, ids)
        return responses

    async def what_can_be_had(self, plan: PodPlan) -> Responses:
        """For a pod that runs already: what is missing matters only when a container of it starts again."""
        responses: Responses = {}
        for container, parts in plan.chosen.items():
            for resource, ids in parts.items():
                try:
                    await self.plugins.returned(resource)
                    responses.setdefault(container, {})[resource] = await self._timed(resource, ids)
                except PluginFailed as error:
                    self.log.warning("container %s may miss what %s gave it: %s", container, resource, error)
        return responses

    async def _timed(self, resource: str, ids: list[str]) -> bytes:
        plugin = self.plugins.serving(resource)
        begin = time.perf_counter()
        try:
            return await plugin.allocate(ids)
        finally:
            self.metrics.allocate.labels(resource).observe(time.perf_counter() - begin)

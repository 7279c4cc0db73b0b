"""The parts of the scheduler that its cycles share."""

import logging
from collections.abc import Callable

import msgspec

from actors.scheduler.claims.devices import DynamicResources
from actors.scheduler.claims.volume_claims import VolumeClaims
from actors.scheduler.cycles.binder import Binder
from actors.scheduler.cycles.metrics import SchedulerMetrics
from actors.scheduler.model.queue import Queue
from actors.scheduler.nodes.node_cache import Cache


class Shared(msgspec.Struct, frozen=True):
    """Parts that the cycles share; each has one of all."""

    cache: Cache
    queue: Queue
    binder: Binder
    devices: DynamicResources
    volumes: VolumeClaims
    metrics: SchedulerMetrics
    log: logging.Logger
    wake: Callable[[], None]
    """Let the scheduler look at the queue."""

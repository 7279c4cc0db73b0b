"""All that this process counts, made once and handed to those who know the facts."""

from prometheus_client import CollectorRegistry

from actors.apiserver.metrics.flows import FlowMetrics
from actors.apiserver.metrics.reads import ReadMetrics
from actors.apiserver.metrics.requests import RequestMetrics
from actors.apiserver.metrics.store import StoreMetrics
from actors.apiserver.metrics.watches import WatchMetrics


class Metrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = RequestMetrics(registry)
        self.watches = WatchMetrics(registry, self.requests)
        self.reads = ReadMetrics(registry)
        self.flows = FlowMetrics(registry)
        self.store = StoreMetrics(registry)

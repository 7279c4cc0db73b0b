"""What the store tells Prometheus, read when it is asked for."""

from collections.abc import Iterator

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from actors.store.core import Core


class StoreCollector(Collector):
    """Gauges of the state and counters of the group commit."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def collect(self) -> Iterator[Metric]:
        core = self._core
        yield GaugeMetricFamily("nodeplane_store_revision", "Current revision.", core.index.revision)
        yield GaugeMetricFamily("nodeplane_store_compact_revision", "Oldest readable revision.", core.index.compacted)
        yield GaugeMetricFamily("nodeplane_store_keys", "Live keys.", len(core.index))
        yield GaugeMetricFamily("nodeplane_store_used_bytes", "Bytes of the file in use.", core.writer.quota.used)
        yield GaugeMetricFamily("nodeplane_store_quota_bytes", "Their quota.", core.options.quota_bytes)
        yield GaugeMetricFamily("nodeplane_store_watchers", "Open watches.", core.hub.watchers)
        yield GaugeMetricFamily("nodeplane_store_leases", "Live leases.", len(core.leases.ids()))
        yield CounterMetricFamily("nodeplane_store_commits", "Commits on disk.", core.writer.commits)
        yield CounterMetricFamily("nodeplane_store_commit_failures", "Commits that failed.", core.writer.failures)

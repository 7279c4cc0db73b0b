"""What the runtime tells Prometheus, counted when it is asked."""

from collections import Counter
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from actors.runtime.model.states import State
from actors.runtime.server import RuntimeServer


class RuntimeCollector(Collector):
    def __init__(self, server: RuntimeServer) -> None:
        self._server = server

    def collect(self) -> Iterable[Metric]:
        containers = GaugeMetricFamily(
            "nodeplane_runtime_containers", "Containers of the embedded runtime.", labels=["state", "kind"]
        )
        entries = self._server.pods.containers.values()
        counts = Counter((entry.life.state, entry.hollow is not None) for entry in entries)
        for state in State:
            for hollow in (False, True):
                containers.add_metric([state.name.lower(), "hollow" if hollow else "process"], counts[state, hollow])
        yield containers
        yield GaugeMetricFamily(
            "nodeplane_runtime_sandboxes", "Sandboxes of the embedded runtime.", len(self._server.pods.sandboxes)
        )
        yield CounterMetricFamily(
            "nodeplane_runtime_container_events",
            "Container events emitted, with or without a subscriber.",
            self._server.events.emitted,
        )
        yield CounterMetricFamily(
            "nodeplane_runtime_slow_subscribers",
            "Event streams ended because their client read too slowly.",
            self._server.events.overflows,
        )

    def describe(self) -> Iterable[Metric]:
        return []

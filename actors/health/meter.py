"""What health counts: what it told, and what it spared the API."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from actors.health.board import Board


class Meter:
    def __init__(self, registry: CollectorRegistry, board: Board) -> None:
        self.published = Counter(
            "nodeplane_health_published_total", "Changes of a pod's device health handed on.", registry=registry
        )
        self.events = Counter(
            "nodeplane_health_events_total", "Events about device health.", ["reason"], registry=registry
        )
        registry.register(_BoardFigures(board))


class _BoardFigures:
    def __init__(self, board: Board) -> None:
        self._board = board

    def collect(self) -> Iterator[Metric]:
        put_off = CounterMetricFamily("nodeplane_health_put_off_total", "Changes while their pod waited for its turn.")
        put_off.add_metric([], self._board.put_off)
        yield put_off
        pods = GaugeMetricFamily("nodeplane_health_pods", "Pods whose device health is told.")
        pods.add_metric([], len(self._board.published))
        yield pods

"""The metrics page of a process: the library's text with numbers as of Go's client, written in turns."""

import asyncio
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    Metric,
    SummaryMetricFamily,
    UntypedMetricFamily,
)
from prometheus_client.registry import Collector

from actors.apiserver.api.counters import Tally, WeightedHistogram
from protocols.actor.metrics import PlainCounter
from protocols.actor.metrics_text import TURN, page


class Families(Collector):
    def __init__(self, *families: Metric) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return list(self._families)


def mixed() -> CollectorRegistry:
    registry = CollectorRegistry()
    PlainCounter("plain_count", "A counter\nof upstream's \\name.", ("kind",), registry).labels("a").inc()
    Counter("asked", "Requests.", ("verb", "code"), registry=registry).labels("GET", "200").inc(1e21)
    Gauge("level", "Level.", registry=registry).set(-0.25)
    Histogram("seconds", "Time.", ("path",), buckets=(0.1, 1), registry=registry).labels('a"b\\c\nd').observe(0.5)
    Tally("tally", "Tally.", ("z", "a"), registry).of("1", "2").inc(12345678)
    WeightedHistogram("sizes", "Sizes.", ("resource",), (1e3, 1e6), registry).labels("pods").observe(2000, 3)
    registry.register(Families(CounterMetricFamily("whole", "No labels.", 3), GaugeMetricFamily("empty", "Empty.")))
    registry.register(Families(SummaryMetricFamily("sum", "Summary.", 2, 1.5), UntypedMetricFamily("any", "Any.", 7)))
    return registry


def as_go(registry: CollectorRegistry) -> str:
    """Return the library's text with numbers as Go's client writes them."""
    text = re.sub(r'(\ble="[^"]*)\.0"', r'\1"', generate_latest(registry).decode())
    return re.sub(r"(?m)^([^#].* -?\d+)\.0$", r"\1", text)


async def test_page_equals_the_librarys_but_for_numbers() -> None:
    registry = mixed()
    assert await page(registry) == as_go(registry)


async def test_numbers_are_written_as_gos_client_does() -> None:
    registry = CollectorRegistry()
    Histogram("seconds", "Time.", buckets=(0.5, 1, 1e6), registry=registry).observe(2.5)
    Gauge("version", "V.", ("of",), registry=registry).labels("1.0").set(1e21)
    assert [line for line in (await page(registry)).splitlines() if not line.startswith("#")] == [
        'seconds_bucket{le="0.5"} 0',
        'seconds_bucket{le="1"} 0',
        'seconds_bucket{le="1e+06"} 1',
        'seconds_bucket{le="+Inf"} 1',
        "seconds_count 1",
        "seconds_sum 2.5",
        'version{of="1.0"} 1e+21',
    ]


@given(st.text(), st.floats())
def test_labels_and_values_equal_the_librarys(text: str, value: float) -> None:
    registry = CollectorRegistry()
    Gauge("g", "G.", ("label",), registry=registry).labels(text).set(value)
    assert asyncio.run(page(registry)) == as_go(registry)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0, True])
async def test_special_values_equal_the_librarys(value: float) -> None:
    registry = CollectorRegistry()
    registry.register(Families(GaugeMetricFamily("g", "G.", value)))
    assert await page(registry) == as_go(registry)


async def test_page_leaves_the_event_loop_to_others() -> None:
    registry = CollectorRegistry()
    gauge = Gauge("g", "G.", ("number",), registry=registry)
    for number in range(20 * TURN):
        gauge.labels(str(number)).set(number)
    made, turns = asyncio.create_task(page(registry)), 0
    while not made.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 20
    assert (await made).count("\n") == 20 * TURN + 2


async def test_weighted_histogram_exports_children_with_observations_only() -> None:
    registry = CollectorRegistry()
    sizes = WeightedHistogram("sizes", "Sizes.", ("resource",), (1e3, 1e6), registry)
    sizes.labels("nodes")
    sizes.labels("pods").observe(2000, 3)
    text = await page(registry)
    assert 'sizes_count{resource="pods"} 3' in text
    assert "nodes" not in text

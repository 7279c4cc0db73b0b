"""Plain counters and the metrics of the bus."""

from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from protocols.actor.metrics import BusCollector, PlainCounter
from protocols.actor.metrics_text import page


async def test_a_plain_counter_keeps_its_name() -> None:
    registry = CollectorRegistry()
    plain = PlainCounter("evictions_number", "Evictions.", registry=registry)
    plain.inc()
    plain.inc(2)
    PlainCounter("by_kind", "Kinds.", ["kind"], registry=registry).labels(kind="a").inc()
    text = await page(registry)
    assert "# TYPE evictions_number counter\nevictions_number 3\n" in text
    assert '# TYPE by_kind counter\nby_kind{kind="a"} 1\n' in text
    assert "_total" not in text


def test_a_plain_counter_refuses_what_is_no_count() -> None:
    plain = PlainCounter("c", "C.", ["kind"])
    with pytest.raises(ValueError, match="only goes up"):
        plain.labels("a").inc(-1)
    with pytest.raises(ValueError, match="has labels"):
        plain.labels("a", "b")


async def test_followed_streams_are_summed_by_their_owner() -> None:
    def followed(owner: str, stream: str, syncs: int, silence: float) -> Any:
        return SimpleNamespace(owner=owner, stream=stream, synced=True, syncs=syncs, silence=silence)

    streams = [followed("watchcache", "objects/core/pods", 2, 1.5), followed("watchcache", "objects/apps/jobs", 1, 3.5)]
    owned = [SimpleNamespace(name="health", seq=0), SimpleNamespace(name="devices", seq=7)]
    bus: Any = SimpleNamespace(
        owned=lambda: owned,
        followed=lambda: [*streams, followed("pleg", "pod-status", 4, 0.5)],
        counters=SimpleNamespace(garbage=0, unsent=0, late=0, refused=0),
    )
    registry = CollectorRegistry()
    registry.register(BusCollector(bus))
    lines = (await page(registry)).splitlines()
    lines = [line for line in lines if not line.startswith(("#", "nodeplane_bus_dropped"))]
    assert lines == [
        'nodeplane_bus_published_total{stream="devices"} 7',
        'nodeplane_bus_synced{owner="watchcache",stream="objects/core/pods"} 1',
        'nodeplane_bus_synced{owner="watchcache",stream="objects/apps/jobs"} 1',
        'nodeplane_bus_synced{owner="pleg",stream="pod-status"} 1',
        'nodeplane_bus_syncs_total{owner="pleg"} 4',
        'nodeplane_bus_syncs_total{owner="watchcache"} 3',
        'nodeplane_bus_silence_seconds{owner="pleg"} 0.5',
        'nodeplane_bus_silence_seconds{owner="watchcache"} 3.5',
    ]

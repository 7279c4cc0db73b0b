"""The watch cache's metrics: counters of the resources that have counted, gauges of all."""

from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from actors.watchcache.shell.metrics import WatchcacheCollector
from protocols.kinds.table import NODES, PODS


def cache(resource: object, **counts: int) -> SimpleNamespace:
    window = SimpleNamespace(capacity=100, increases=counts.get("increases", 0), decreases=counts.get("decreases", 0))
    numbers = {
        "received": counts.get("received", 0),
        "published": 0,
        "progress": 0,
        "initializations": 1,
        "position": 7,
    }
    return SimpleNamespace(resource=resource, window=window, objects={}, checks={}, **numbers)


def test_rare_counters_are_exported_for_resources_that_counted() -> None:
    caches = [cache(NODES), cache(PODS, increases=2, decreases=1, received=3)]
    follower = SimpleNamespace(reconnects=0)
    backend: Any = SimpleNamespace(state=SimpleNamespace(caches=caches), size=None, follower=follower)
    registry = CollectorRegistry()
    registry.register(WatchcacheCollector([backend]))
    lines = set(generate_latest(registry).decode().splitlines())
    pods, nodes = '{group="",resource="pods"}', '{group="",resource="nodes"}'
    assert {
        f"watch_cache_capacity_increase_total{pods} 2.0",
        f"watch_cache_capacity_decrease_total{pods} 1.0",
        f"apiserver_watch_cache_events_received_total{pods} 3.0",
        f"apiserver_storage_events_received_total{pods} 3.0",
        f"apiserver_watch_cache_initializations_total{nodes} 1.0",
        f"watch_cache_capacity{nodes} 100.0",
    } <= lines
    assert not [
        line for line in lines if nodes in line and line.startswith(("watch_cache_capacity_", "apiserver_storage_"))
    ]

"""Counters of requests: shown as Prometheus shows its own."""

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

from actors.apiserver.api.counters import Tally


def shown(registry: CollectorRegistry) -> list[str]:
    return [line for line in generate_latest(registry).decode().splitlines() if "_created" not in line]


def test_it_is_shown_as_the_librarys_counter_is() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    tally = Tally("requests", "Answered.", ("verb", "code"), ours)
    counter = Counter("requests", "Answered.", ("verb", "code"), registry=theirs)
    assert shown(ours) == shown(theirs), "before the first one, too"
    for verb, code, times in (("GET", "200", 3), ("POST", "201", 1)):
        for _ in range(times):
            tally.of(verb, code).inc()
            counter.labels(verb, code).inc()
    assert shown(ours) == shown(theirs)
    assert ours.get_sample_value("requests_total", {"verb": "GET", "code": "200"}) == 3


def test_tally_exports_children_that_have_counted_only() -> None:
    registry = CollectorRegistry()
    tally = Tally("requests", "Answered.", ("verb",), registry)
    tally.of("GET")
    tally.of("POST").inc()
    assert [line for line in shown(registry) if not line.startswith("#")] == ['requests_total{verb="POST"} 1.0']


def test_labels_are_as_many_as_were_named() -> None:
    tally = Tally("requests", "Answered.", ("verb", "code"), CollectorRegistry())
    with pytest.raises(ValueError, match="has labels"):
        tally.of("GET")


def test_a_name_is_taken_once() -> None:
    registry = CollectorRegistry()
    Tally("requests", "Answered.", ("verb",), registry)
    with pytest.raises(ValueError, match="Duplicated"):
        Tally("requests", "Again.", ("verb",), registry)

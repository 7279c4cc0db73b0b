"""Requests to the stores, and the newest revision each is known to have: what the replicas are measured by."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram

from actors.apiserver.catalog.resource import Resource
from actors.apiserver.metrics.requests import SECONDS
from protocols.actor.metrics import Labelled
from protocols.etcd import EtcdError

ASKED = ("operation", "group", "resource")
LEASED = (10, 50, 100, 500, 1000, 2500, 5000)


class StoreMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.newest: dict[int, int] = {}
        """By number of the store: the highest revision an answer to this process has named."""
        seconds = "etcd_request_duration_seconds"
        self._seconds = Labelled(
            Histogram(seconds, "Time of the store's answers.", ASKED, buckets=SECONDS, registry=registry)
        )
        self._total = Labelled(Counter("etcd_requests", "Requests to the store.", ASKED, registry=registry))
        self._errors = Labelled(Counter("etcd_request_errors", "Those it did not answer.", ASKED, registry=registry))
        leased = "etcd_lease_object_counts"
        self._leased = Histogram(leased, "Objects that shared a lease.", buckets=LEASED, registry=registry)

    @contextmanager
    def asked(self, operation: str, resource: Resource) -> Iterator[None]:
        labels = (operation, resource.group, resource.plural)
        began = time.monotonic()
        self._total.of(*labels).inc()
        try:
            yield
        except EtcdError:
            self._errors.of(*labels).inc()
            raise
        finally:
            self._seconds.of(*labels).observe(time.monotonic() - began)

    def saw(self, store: int, revision: int) -> None:
        if revision > self.newest.get(store, 0):
            self.newest[store] = revision

    def lease_full(self, objects: int) -> None:
        """A lease gets no more objects."""
        self._leased.observe(objects)

"""Metrics of the pod resources and pods APIs.

Those of kubelet keep kubelet's names, most of which lack the suffix `_total`.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge

from protocols.actor.metrics import PlainCounter

PREFIX = "kubelet_pod_resources_endpoint"
KINDS = ("list", "get_allocatable", "get", "list_and_watch", "list_and_watch_allocatable_resources")
LABEL = "server_api_version"


class FrontDoorMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._all = Counter(f"{PREFIX}_requests_total", "Requests of any kind", [LABEL], registry=registry)
        self._requests = {kind: self._kubelet_counter("requests", kind, registry) for kind in KINDS}
        self._errors = {kind: self._kubelet_counter("errors", kind, registry) for kind in KINDS}
        self.watchers = Gauge("nodeplane_pod_resources_watchers", "Open watches", ["kind"], registry=registry)
        self.lag = Gauge(
            "nodeplane_pod_resources_watch_lag", "Events queued for the slowest client", ["kind"], registry=registry
        )
        self.dropped = Counter(
            "nodeplane_pod_resources_watchers_dropped_total", "Watches ended because their client was too slow",
            ["kind"], registry=registry,
        )  # fmt: skip
        self.pods_dropped = Counter(
            "kubelet_pod_watch_events_dropped_total", "Watches of the pods API ended because their client was too slow",
            registry=registry,
        )  # fmt: skip
        self.limited = Counter(
            "nodeplane_pod_resources_rate_limited_total",
            "Calls and watches over the rate limit",
            registry=registry,
        )
        self.rejected = Counter(
            "nodeplane_pod_resources_connections_refused_total", "Rejected connections", ["reason"], registry=registry
        )
        self.connections = Gauge("nodeplane_pod_resources_connections", "Open connections", registry=registry)

    def _kubelet_counter(self, what: str, kind: str, registry: CollectorRegistry) -> PlainCounter:
        return PlainCounter(f"{PREFIX}_{what}_{kind}", f"{what.capitalize()} of {kind}", [LABEL], registry=registry)

    def request(self, kind: str, version: str = "v1") -> None:
        # v1alpha1 counts in the total only, as in kubelet.
        self._all.labels(version).inc()
        if version == "v1":
            self._requests[kind].labels(version).inc()

    def error(self, kind: str, version: str = "v1") -> None:
        if version == "v1":
            self._errors[kind].labels(version).inc()

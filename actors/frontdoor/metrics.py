"""Figures of the front door, under kubelet's names (which have no `_total`, but for one)."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from protocols.actor.metrics import PlainCounter

PREFIX = "kubelet_pod_resources_endpoint"
KINDS = ("list", "get_allocatable", "get", "list_and_watch", "list_and_watch_allocatable_resources")
LABEL = "server_api_version"


class FrontDoorMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._all = Counter(f"{PREFIX}_requests_total", "Requests of any kind", [LABEL], registry=registry)
        self._requests = {kind: self._plain("requests", kind, registry) for kind in KINDS}
        self._errors = {kind: self._plain("errors", kind, registry) for kind in KINDS}
        self.watchers = Gauge("nodeplane_pod_resources_watchers", "Open watches", ["kind"], registry=registry)
        self.pods_dropped = Counter(
            "kubelet_pod_watch_events_dropped_total", "Watches of the pods API that were too slow", registry=registry
        )
        self.limited = Counter(
            "nodeplane_pod_resources_rate_limited_total", "Unary calls over the rate, which were refused",
            registry=registry,
        )  # fmt: skip
        self.refused = Counter(
            "nodeplane_pod_resources_connections_refused_total", "Connections that were not let in",
            ["reason"], registry=registry,
        )  # fmt: skip
        self.lag = Gauge(
            "nodeplane_pod_resources_watch_lag", "Events that wait for the slowest client", ["kind"], registry=registry
        )
        self.connections = Gauge("nodeplane_pod_resources_connections", "Open connections", registry=registry)
        self.dropped = Counter(
            "nodeplane_pod_resources_watchers_dropped_total", "Watches ended because their client was too slow",
            ["kind"], registry=registry,
        )  # fmt: skip

    def _plain(self, what: str, kind: str, registry: CollectorRegistry) -> PlainCounter:
        return PlainCounter(f"{PREFIX}_{what}_{kind}", f"{what.capitalize()} of {kind}", [LABEL], registry=registry)

    def request(self, kind: str, version: str = "v1") -> None:
        """v1alpha1 counts only in the total, as kubelet's does."""
        self._all.labels(version).inc()
        if version == "v1":
            self._requests[kind].labels(version).inc()

    def error(self, kind: str, version: str = "v1") -> None:
        if version == "v1":
            self._errors[kind].labels(version).inc()

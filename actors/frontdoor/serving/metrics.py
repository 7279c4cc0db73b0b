"""Metrics of the pod resources and pods APIs.

Those of kubelet keep kubelet's names, most of which lack the suffix `_total`.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge

from protocols.actor.metrics import PlainCounter
from protocols.process.families import CounterFamily, GaugeFamily

PREFIX = "kubelet_pod_resources_endpoint"
KINDS = ("list", "get_allocatable", "get", "list_and_watch", "list_and_watch_allocatable_resources")
LABELS = ("server_api_version",)
ALL = CounterFamily(f"{PREFIX}_requests_total", "Requests of any method of the pod resources API.", LABELS)
REQUESTS = {
    kind: CounterFamily(f"{PREFIX}_requests_{kind}", f"Requests of method {kind} of the pod resources API.", LABELS)
    for kind in KINDS
}
ERRORS = {
    kind: CounterFamily(
        f"{PREFIX}_errors_{kind}", f"Failed requests of method {kind} of the pod resources API.", LABELS
    )
    for kind in KINDS
}
WATCHERS = GaugeFamily("nodeplane_pod_resources_watchers", "Open watches of the pod resources API.", ("kind",))
LAG = GaugeFamily("nodeplane_pod_resources_watch_lag", "Events queued for the slowest client of a watch.", ("kind",))
DROPPED = CounterFamily(
    "nodeplane_pod_resources_watchers_dropped_total",
    "Watches of the pod resources API that ended because their client was too slow.",
    ("kind",),
)
PODS_DROPPED = CounterFamily(
    "kubelet_pod_watch_events_dropped_total",
    "Watches of the pods API that ended because their client was too slow.",
)
LIMITED = CounterFamily(
    "nodeplane_pod_resources_rate_limited_total", "Calls and watches rejected since they were over the rate limit."
)
REJECTED = CounterFamily(
    "nodeplane_pod_resources_connections_refused_total", "Connections that were rejected, by reason.", ("reason",)
)
CONNECTIONS = GaugeFamily("nodeplane_pod_resources_connections", "Open connections to the pod resources API.")


class FrontDoorMetrics:
    """Counters of calls, watches and connections."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._all = Counter(*ALL, registry=registry)
        self._requests = {kind: PlainCounter(*family, registry) for kind, family in REQUESTS.items()}
        self._errors = {kind: PlainCounter(*family, registry) for kind, family in ERRORS.items()}
        self.watchers = Gauge(*WATCHERS, registry=registry)
        self.lag = Gauge(*LAG, registry=registry)
        self.dropped = Counter(*DROPPED, registry=registry)
        self.pods_dropped = Counter(*PODS_DROPPED, registry=registry)
        self.limited = Counter(*LIMITED, registry=registry)
        self.rejected = Counter(*REJECTED, registry=registry)
        self.connections = Gauge(*CONNECTIONS, registry=registry)

    def request(self, kind: str, version: str = "v1") -> None:
        # v1alpha1 counts in the total only, as in kubelet.
        self._all.labels(version).inc()
        if version == "v1":
            self._requests[kind].labels(version).inc()

    def error(self, kind: str, version: str = "v1") -> None:
        if version == "v1":
            self._errors[kind].labels(version).inc()

"""All that the console knows of one plane, with rates and latencies of the last 15 minutes from its metrics."""

import time
from collections.abc import Callable

from protocols.recording.samples import SERVER
from supervisor.console.model.devices import DeviceReplicas
from supervisor.console.model.history import Rate, Series
from supervisor.console.model.metrics import Page, bucket_quantile
from supervisor.console.model.plane import House
from supervisor.console.model.pleg import Pleg
from supervisor.console.model.pods import PodReplicas
from supervisor.console.model.watch import WatchPage

COUNTERS = {
    "store": (("store commits", "nodeplane_store_commits_total", {}),),
    "scheduler": (("pods scheduled", "scheduler_schedule_attempts_total", {"result": "scheduled"}),),
    "cri": (("runtime calls", "kubelet_runtime_operations_total", {}),),
    "pleg": (("runtime events", "evented_pleg_notifications_received", {}),),
    "watchcache": (("store events", "apiserver_storage_events_received_total", {}),),
    "podworker": (("status updates", "kubelet_pod_status_sync_duration_seconds_count", {}),),
}
"""By actor: the title of a rate, the counter behind it, and its labels."""
QUANTILES = {
    "scheduler": (("scheduling p99", "scheduler_scheduling_attempt_duration_seconds"),),
    "podworker": (
        ("pod start p99", "kubelet_pod_start_duration_seconds"),
        ("status patch p99", "kubelet_pod_status_sync_duration_seconds"),
    ),
    "pleg": (("event age p99", "nodeplane_event_latency_seconds"),),
}
"""By actor: the title of a latency, and its histogram; the value is of the samples since the last page."""
SERVER_COUNTER = "apiserver_request_total"


class Timeline:
    """Rates and latencies by title, computed from pages of metrics as they come."""

    def __init__(self) -> None:
        self.rates: dict[str, Series] = {"API requests": Series()}
        self.latencies: dict[str, Series] = {}
        self._rates: dict[tuple[str, str], Rate] = {}
        self._pages: dict[str, Page] = {}

    def measured(self, actor: str, page: Page, now: float) -> None:
        """Update the plots from an actor's metrics."""
        for title, name, labels in COUNTERS.get(actor, ()):
            self._count(actor, title, page.total(name, **labels), now)
        for title, name in QUANTILES.get(actor, ()):
            value = bucket_quantile(_since(page, self._pages.get(actor), name), name, 0.99)
            if value is not None:
                self.latencies.setdefault(title, Series()).add(now, value)
        self._pages[actor] = page

    def server_measured(self, server: str, page: Page, now: float) -> None:
        self._count(server, "API requests", page.total(SERVER_COUNTER), now)

    def _count(self, actor: str, title: str, count: float, now: float) -> None:
        value = self._rates.setdefault((actor, title), Rate()).of(now, count)
        if value is not None:
            self.rates.setdefault(title, Series()).add(now, value)


def _since(page: Page, before: Page | None, name: str) -> Page:
    """Return the buckets of the samples between two pages; those of a restarted process whole."""
    bucket = f"{name}_bucket"
    old = before.by(bucket, "le") if before else {}
    new = page.by(bucket, "le")
    if any(value < old.get(key, 0.0) for key, value in new.items()):
        old = {}
    difference = Page("", ())
    difference.samples[bucket] = [({"le": key[0]}, value - old.get(key, 0.0)) for key, value in new.items()]
    return difference


STORE_REVISION = "nodeplane_store_revision"


class World:
    """State by screen. `version` grows with every change, so that an idle plane costs no drawing."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns the Unix time of the shown state: now, or a time of a recording."""
        self.now = clock
        self.house = House()
        self.devices = DeviceReplicas()
        self.pods = PodReplicas()
        self.watch = WatchPage()
        self.pleg = Pleg()
        self.timeline = Timeline()
        self.version = 0

    def changed(self) -> None:
        self.version += 1

    def measured(self, instance: str, page: Page, now: float) -> None:
        """Update all models that read this process's metrics."""
        if instance.startswith(SERVER):
            self.watch.server_measured(instance, page)
            self.timeline.server_measured(instance, page, now)
            return
        self.timeline.measured(instance, page, now)
        if instance == "pleg":
            self.pleg.measured(page, now)
        elif instance == "store":
            self.watch.store_revision = int(page.total(STORE_REVISION))
        elif instance == "watchcache":
            self.watch.cache_measured(page, now)

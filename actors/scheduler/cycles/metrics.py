"""Metrics of the scheduler, under upstream's names where it has them."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from actors.scheduler.claims.devices import DynamicResources
from protocols.actor.metrics import labelled, single
from protocols.dra.types import PoolId
from protocols.process.families import CounterFamily, GaugeFamily, HistogramFamily

PROFILE = "default-scheduler"
MAX_POOLS, MAX_DRIVERS = 512, 64
"""Pools with a time series of their own, and drivers whose other pools have one together."""
OTHER_POOLS = "(others)"
SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
VICTIMS = (1, 2, 4, 8, 16, 32, 64)
BUCKETS = tuple(0.001 * 2**step for step in range(15))


ATTEMPTS = CounterFamily(
    "scheduler_schedule_attempts_total",
    "Attempts to place a pod; result is scheduled, unschedulable (no node fits) or error (the attempt failed).",
    ("profile", "result"),
)
ATTEMPT_SECONDS = HistogramFamily(
    "scheduler_scheduling_attempt_duration_seconds",
    "Seconds from the start of an attempt to the binding, or to the decision that the pod waits.",
    ("profile", "result"),
)
ALLOCATIONS = CounterFamily(
    "nodeplane_scheduler_claim_allocations_total",
    "Claims written to the API; result is done, overtaken (changed by others) or contested (released).",
    ("result",),
)
WAITS = CounterFamily(
    "nodeplane_scheduler_binding_waits_total",
    "Ended waits for devices with binding conditions; result is ready or failed.",
    ("result",),
)
PREEMPTIONS = CounterFamily(
    "scheduler_preemption_attempts_total", "Preemptions that evicted pods, or wait for pods that are leaving."
)
PREEMPTED = HistogramFamily("scheduler_preemption_victims", "Victims of a preemption.")
PENDING = GaugeFamily(
    "scheduler_pending_pods", "Pods that wait; queue is active, backoff or unschedulable.", ("queue",)
)
ALLOCATED = GaugeFamily("nodeplane_scheduler_allocated_devices", "Devices that are allocated or reserved.")
BINDING = GaugeFamily(
    "nodeplane_scheduler_binding_waiting_pods", "Pods whose devices are being prepared, by binding conditions."
)
REBUILDS = CounterFamily("nodeplane_dra_tracker_rebuilds_total", "Slices whose patched devices were computed.")
EVALUATIONS = CounterFamily(
    "nodeplane_dra_cel_evaluations_total", "CEL selectors evaluated for a device; for is patches or claims.", ("for",)
)
FAILURES = CounterFamily(
    "nodeplane_dra_cel_failures_total",
    "Evaluations of CEL selectors for a device that failed; for is patches or claims.",
    ("for",),
)
SEARCHES = CounterFamily(
    "nodeplane_scheduler_allocation_searches_total",
    "Searches for devices on one node; cached results do not count.",
)
POOL_DEVICES = GaugeFamily(
    "nodeplane_scheduler_pool_devices",
    "Devices in the newest generation of a pool; past 512 pools the rest of a driver is (others).",
    ("driver", "pool"),
)
POOL_DEVICES_IN_USE = GaugeFamily(
    "nodeplane_scheduler_pool_devices_in_use",
    "Devices of a pool that claims hold, whole or in shares.",
    ("driver", "pool"),
)


class SchedulerMetrics:
    """Counters of attempts, allocations, waits and preemptions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._attempts = Counter(*ATTEMPTS, registry=registry)
        self._took = Histogram(*ATTEMPT_SECONDS, buckets=BUCKETS, registry=registry)
        self._allocations = Counter(*ALLOCATIONS, registry=registry)
        self._waits = Counter(*WAITS, registry=registry)
        self._preemptions = Counter(*PREEMPTIONS, registry=registry)
        self._victims = Histogram(*PREEMPTED, buckets=VICTIMS, registry=registry)

    def preempted(self, victims: int) -> None:
        self._preemptions.inc()
        self._victims.observe(victims)

    def attempt(self, result: str, seconds: float) -> None:
        self._attempts.labels(PROFILE, result).inc()
        self._took.labels(PROFILE, result).observe(seconds)

    def allocated(self, result: str, claims: int) -> None:
        self._allocations.labels(result).inc(claims)

    def waited(self, result: str) -> None:
        self._waits.labels(result).inc()


class StateCollector(Collector):
    """Collects queue lengths, allocated devices and counters of the device caches at scrape time."""

    def __init__(self, queues: Callable[[], Mapping[str, int]], devices: DynamicResources) -> None:
        self._queues, self._devices = queues, devices

    def collect(self) -> Iterable[Metric]:
        pending = labelled(PENDING)
        for queue, count in self._queues().items():
            pending.add_metric([queue], count)
        yield pending
        devices = self._devices
        tracked = devices.feed.tracker.counts
        yield single(ALLOCATED, len(devices.ledger))
        yield from _pools(devices)
        yield single(BINDING, devices.binding.waiting)
        yield single(REBUILDS, tracked.rebuilds)
        yield _counts(EVALUATIONS, tracked.evaluations, devices.engine.evaluations)
        yield _counts(FAILURES, tracked.failures, devices.engine.failures)
        yield single(SEARCHES, devices.fit.searches)


def _pools(devices: DynamicResources) -> Iterable[Metric]:
    """Yield devices by driver and pool; pools past MAX_POOLS are summed up by driver."""
    published, used = devices.catalog.sizes(), devices.ledger.in_use()
    named = sorted(published.keys() | used.keys())[:MAX_POOLS]
    yield _by_pool(POOL_DEVICES, published, named)
    yield _by_pool(POOL_DEVICES_IN_USE, used, named)


def _by_pool(declared: GaugeFamily, counts: Mapping[PoolId, int], named: Iterable[PoolId]) -> Metric:
    sums: dict[PoolId, int] = dict.fromkeys(named, 0)
    for pool, count in counts.items():
        key = pool if pool in sums else PoolId(pool.driver, OTHER_POOLS)
        if key in sums or len(sums) < MAX_POOLS + MAX_DRIVERS:
            sums[key] = sums.get(key, 0) + count
    family = labelled(declared)
    for key, total in sums.items():
        family.add_metric(list(key), total)
    return family


def _counts(declared: CounterFamily, patches: float, claims: float) -> Metric:
    family = labelled(declared)
    family.add_metric(["patches"], patches)
    family.add_metric(["claims"], claims)
    return family

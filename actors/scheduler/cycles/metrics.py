"""Metrics of the scheduler, under upstream's names where it has them."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from actors.scheduler.claims.devices import DynamicResources
from protocols.dra.types import PoolId

PROFILE = "default-scheduler"
MAX_POOLS, MAX_DRIVERS = 512, 64
"""Pools with a time series of their own, and drivers whose other pools have one together."""
OTHER_POOLS = "(others)"
SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
VICTIMS = (1, 2, 4, 8, 16, 32, 64)
BUCKETS = tuple(0.001 * 2**step for step in range(15))


class SchedulerMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._attempts = Counter(
            "scheduler_schedule_attempts_total",
            "Attempts to place a pod, by result: unschedulable is that no node fits, error that the attempt failed",
            ["profile", "result"],
            registry=registry,
        )
        self._took = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "From taking up a pod to its binding, or to knowing that it has to wait",
            ["profile", "result"],
            buckets=BUCKETS,
            registry=registry,
        )
        self._allocations = Counter(
            "nodeplane_scheduler_claim_allocations_total",
            "Claims written to the API, by result: done, overtaken (changed by others), contested (given back)",
            ["result"],
            registry=registry,
        )

        self._waits = Counter(
            "nodeplane_scheduler_binding_waits_total",
            "Waits for devices with binding conditions, by result: ready, failed",
            ["result"],
            registry=registry,
        )

        self._preemptions = Counter(
            "scheduler_preemption_attempts_total", "Preemptions that evicted pods, or wait for some", registry=registry
        )
        self._victims = Histogram(
            "scheduler_preemption_victims", "Victims of a preemption", buckets=VICTIMS, registry=registry
        )

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
        pending = GaugeMetricFamily("scheduler_pending_pods", "Pods that wait, by queue.", labels=["queue"])
        for queue, count in self._queues().items():
            pending.add_metric([queue], count)
        yield pending
        devices = self._devices
        tracked = devices.feed.tracker.counts
        text = "DynamicResources that are allocated, or about to be."
        yield GaugeMetricFamily("nodeplane_scheduler_allocated_devices", text, value=len(devices.ledger))
        yield from _pools(devices)
        text = "Pods whose devices are being prepared: binding conditions."
        yield GaugeMetricFamily("nodeplane_scheduler_binding_waiting_pods", text, value=devices.binding.waiting)
        yield _count(
            "nodeplane_dra_tracker_rebuilds", "Slices whose patched devices were worked out.", tracked.rebuilds
        )
        text = "CEL selectors decided for a device, by who asked."
        yield _counts("nodeplane_dra_cel_evaluations", text, tracked.evaluations, devices.engine.evaluations)
        text = "Of them, those that failed."
        yield _counts("nodeplane_dra_cel_failures", text, tracked.failures, devices.engine.failures)
        text = "Searches for devices on one node; what was known already is not searched."
        yield _count("nodeplane_scheduler_allocation_searches", text, devices.fit.searches)

    def describe(self) -> Iterable[Metric]:
        return []


def _pools(devices: DynamicResources) -> Iterable[Metric]:
    """Yield devices by driver and pool; pools past MAX_POOLS are summed up by driver."""
    published, used = devices.catalog.sizes(), devices.ledger.in_use()
    named = sorted(published.keys() | used.keys())[:MAX_POOLS]
    text = "Devices in the newest generation of a pool."
    yield _by_pool("nodeplane_scheduler_pool_devices", text, published, named)
    text = "Devices of a pool that claims hold, whole or in shares."
    yield _by_pool("nodeplane_scheduler_pool_devices_in_use", text, used, named)


def _by_pool(name: str, text: str, counts: Mapping[PoolId, int], named: Iterable[PoolId]) -> Metric:
    sums: dict[PoolId, int] = dict.fromkeys(named, 0)
    for pool, count in counts.items():
        key = pool if pool in sums else PoolId(pool.driver, OTHER_POOLS)
        if key in sums or len(sums) < MAX_POOLS + MAX_DRIVERS:
            sums[key] = sums.get(key, 0) + count
    family = GaugeMetricFamily(name, text, labels=["driver", "pool"])
    for key, total in sums.items():
        family.add_metric(list(key), total)
    return family


def _count(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(name, text, value=value)


def _counts(name: str, text: str, patches: float, claims: float) -> CounterMetricFamily:
    family = CounterMetricFamily(name, text, labels=["for"])
    family.add_metric(["patches"], patches)
    family.add_metric(["claims"], claims)
    return family

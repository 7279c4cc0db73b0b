"""Metrics of the device manager, under kubelet's names where it has them."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from protocols.actor.metrics import DEFAULT_BUCKETS
from protocols.messages.devices import HEALTHY, UNHEALTHY, DeviceHealth
from protocols.process.families import CounterFamily, GaugeFamily, HistogramFamily

MAX_SAMPLES_PER_RESOURCE = 1000
"""Devices per resource with a sample of their own, to bound the page."""
_VALUES = {HEALTHY: 1, UNHEALTHY: 0}


REGISTRATIONS = CounterFamily(
    "kubelet_device_plugin_registration_total",
    "Registrations of device plugins that passed the checks.",
    ("resource_name",),
)
ALLOCATIONS = HistogramFamily(
    "kubelet_device_plugin_alloc_duration_seconds",
    "Seconds that Allocate calls to device plugins took.",
    ("resource_name",),
)
HEALTH = GaugeFamily(
    "nodeplane_device_health",
    "1 for a Healthy device, 0 for Unhealthy, -1 for Unknown; of a resource's first 1000 devices.",
    ("resource_name", "device"),
)


class DeviceMetrics:
    """Counts registrations, calls of Allocate and devices by health."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registrations = Counter(*REGISTRATIONS, registry=registry)
        self.allocate = Histogram(*ALLOCATIONS, buckets=DEFAULT_BUCKETS, registry=registry)
        self._health = Gauge(*HEALTH, registry=registry)
        self._sampled: dict[str, set[str]] = {}

    def registered(self, resource: str) -> None:
        self._registrations.labels(resource).inc()

    def health(self, device: DeviceHealth) -> None:
        sampled = self._sampled.setdefault(device.resource, set())
        if device.id in sampled or len(sampled) < MAX_SAMPLES_PER_RESOURCE:
            sampled.add(device.id)
            self._health.labels(device.resource, device.id).set(_VALUES.get(device.health, -1))

    def forget(self, device: DeviceHealth) -> None:
        sampled = self._sampled.get(device.resource, set())
        if device.id in sampled:
            sampled.discard(device.id)
            self._health.remove(device.resource, device.id)

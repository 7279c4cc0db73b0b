"""Metrics of the device manager, under kubelet's names where it has them."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from protocols.actor.metrics import DEFAULT_BUCKETS
from protocols.messages.devices import HEALTHY, UNHEALTHY, DeviceHealth

MAX_SAMPLES_PER_RESOURCE = 1000
"""Devices per resource with a sample of their own, to bound the page."""
_VALUES = {HEALTHY: 1, UNHEALTHY: 0}


class DeviceMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registrations = Counter(
            "kubelet_device_plugin_registration_total",
            "Registrations of device plugins that passed the checks and answered",
            ["resource_name"],
            registry=registry,
        )
        self.allocate = Histogram(
            "kubelet_device_plugin_alloc_duration_seconds",
            "Duration of Allocate calls to device plugins",
            ["resource_name"],
            buckets=DEFAULT_BUCKETS,
            registry=registry,
        )
        self._health = Gauge(
            "nodeplane_device_health",
            "1 Healthy, 0 Unhealthy, -1 Unknown",
            ["resource_name", "device"],
            registry=registry,
        )

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

"""Figures of the device manager, under kubelet's names where kubelet has them."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from protocols.messages.devices import HEALTHY, UNHEALTHY, DeviceHealth

SHOWN = 1000
"""Devices of a resource that have a sample of their own: a page of metrics has an end."""
_FIGURE = {HEALTHY: 1, UNHEALTHY: 0}


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
            registry=registry,
        )
        self._health = Gauge(
            "nodeplane_device_health",
            "1 Healthy, 0 Unhealthy, -1 Unknown",
            ["resource_name", "device"],
            registry=registry,
        )

        self._shown: dict[str, set[str]] = {}

    def registered(self, resource: str) -> None:
        self._registrations.labels(resource).inc()

    def health(self, device: DeviceHealth) -> None:
        shown = self._shown.setdefault(device.resource, set())
        if device.id in shown or len(shown) < SHOWN:
            shown.add(device.id)
            self._health.labels(device.resource, device.id).set(_FIGURE.get(device.health, -1))

    def forget(self, device: DeviceHealth) -> None:
        shown = self._shown.get(device.resource, set())
        if device.id in shown:
            shown.discard(device.id)
            self._health.remove(device.resource, device.id)

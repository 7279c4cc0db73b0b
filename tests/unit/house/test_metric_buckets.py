"""Histograms under upstream's names have upstream's buckets."""

import ast
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from actors.devices.model.metrics import DeviceMetrics
from actors.podworker.pods.workers.metrics import PodMetrics
from tests.support.product import product_modules

GO_DEFAULTS = ["0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "+Inf"]


def histograms_without_buckets(path: Path) -> list[str]:
    if "Histogram(" not in (text := path.read_text()):
        return []
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    found = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Histogram"]
    return [f"{path}:{call.lineno}" for call in found if "buckets" not in {word.arg for word in call.keywords}]


def test_histograms_name_their_buckets() -> None:
    """The library's defaults are not those of Go's client."""
    assert [place for path in product_modules() for place in histograms_without_buckets(path)] == []


@pytest.mark.parametrize(
    "name", ["kubelet_pod_worker_duration_seconds", "kubelet_device_plugin_alloc_duration_seconds"]
)
def test_upstreams_default_histogram_has_gos_buckets(name: str) -> None:
    registry = CollectorRegistry()
    PodMetrics(registry).work.labels("sync").observe(0.2)
    DeviceMetrics(registry).allocate.labels("example.com/gpu").observe(0.2)
    lines = generate_latest(registry).decode().splitlines()
    buckets = [line.split('le="')[1].split('"')[0] for line in lines if line.startswith(f"{name}_bucket")]
    assert buckets == GO_DEFAULTS

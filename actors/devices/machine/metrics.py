"""Metrics of CPU, memory and topology management, under kubelet's names."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from actors.devices.cpu.pool import CpuPool
from actors.devices.model.errors import AdmissionRejected, NoMemory, PlacementFailed
from actors.devices.topology.policy import SINGLE
from protocols.actor.metrics import PlainCounter

DURATION_MS = tuple(0.05 * 2**step for step in range(15))


class MachineMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, help: str) -> Counter:
            return Counter(f"kubelet_{name}", help, registry=registry)

        self.requests = counter("topology_manager_admission_requests_total", "Admissions with a topology decision")
        self.errors = counter("topology_manager_admission_errors_total", "Admissions that were refused")
        self.duration = Histogram(
            "kubelet_topology_manager_admission_duration_ms",
            "Duration of an admission in milliseconds",
            buckets=DURATION_MS,
            registry=registry,
        )
        self._pinned = counter("cpu_manager_pinning_requests_total", "Containers that asked for exclusive CPUs")
        self._unpinned = counter("cpu_manager_pinning_errors_total", "Containers that asked for them in vain")
        self._bound = counter("memory_manager_pinning_requests_total", "Containers that asked for memory of NUMA nodes")
        self._unbound = counter("memory_manager_pinning_errors_total", "Containers that asked for it in vain")
        self._shared = Gauge(
            "kubelet_cpu_manager_shared_pool_size_millicores", "CPUs of the shared pool", registry=registry
        )
        self._exclusive = Gauge(
            "kubelet_cpu_manager_exclusive_cpu_allocation_count", "CPUs given exclusively", registry=registry
        )
        labels = ("scope", "boundary")
        name, help = "kubelet_container_aligned_compute_resources", "Containers"
        self._aligned = PlainCounter(f"{name}_count", f"{help} placed on one NUMA node", labels, registry)
        self._failures = PlainCounter(f"{name}_failure_count", f"{help} that were to be and were not", labels, registry)

    def cpus(self, pool: CpuPool | None) -> None:
        if pool is not None:
            self._shared.set(1000 * len(pool.shared))
            self._exclusive.set(len(pool.exclusive))

    def pinning(self, cpus: bool, memory: bool, failed: PlacementFailed | AdmissionRejected | None) -> None:
        """Count a placement. Memory is requested only once CPUs are allocated."""
        no_memory = isinstance(failed, NoMemory)
        self._pinned.inc(cpus)
        self._unpinned.inc(cpus and failed is not None and not no_memory)
        self._bound.inc(memory and (failed is None or no_memory))
        self._unbound.inc(no_memory)

    def decided(self, scope: str, policy: str, admitted: bool) -> None:
        """Count a merged hint. As upstream, only policy single-numa-node counts."""
        if policy == SINGLE:
            (self._aligned if admitted else self._failures).labels(scope, "numa_node").inc()

    @contextmanager
    def admission(self) -> Iterator[None]:
        """Measure one pod's admission."""
        begin = time.perf_counter()
        self.requests.inc()
        try:
            yield
        except BaseException:
            self.errors.inc()
            raise
        finally:
            self.duration.observe(1000 * (time.perf_counter() - begin))

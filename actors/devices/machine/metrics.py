"""Metrics of CPU, memory and topology management, under kubelet's names."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from actors.devices.cpu.pool import CpuPool
from actors.devices.cpu.topology import Cpus
from actors.devices.model.errors import NoMemory, PlacementFailed
from actors.devices.topology.policy import SINGLE
from protocols.actor.metrics import PlainCounter
from protocols.lifecycle.errors import AdmissionRejected
from protocols.process.families import CounterFamily, GaugeFamily, HistogramFamily

DURATION_MS = tuple(0.05 * 2**step for step in range(15))


ADMISSIONS = CounterFamily(
    "kubelet_topology_manager_admission_requests_total", "Admissions of pods that needed a topology decision."
)
ADMISSION_ERRORS = CounterFamily(
    "kubelet_topology_manager_admission_errors_total", "Admissions of pods that were rejected."
)
ADMISSION_MS = HistogramFamily(
    "kubelet_topology_manager_admission_duration_ms",
    "Milliseconds that an admission took, calls of plugins included.",
)
CPU_REQUESTS = CounterFamily("kubelet_cpu_manager_pinning_requests_total", "Containers that requested exclusive CPUs.")
CPU_ERRORS = CounterFamily(
    "kubelet_cpu_manager_pinning_errors_total", "Containers whose request for exclusive CPUs failed."
)
MEMORY_REQUESTS = CounterFamily(
    "kubelet_memory_manager_pinning_requests_total", "Containers that requested memory of NUMA nodes."
)
MEMORY_ERRORS = CounterFamily(
    "kubelet_memory_manager_pinning_errors_total", "Containers whose request for memory of NUMA nodes failed."
)
SHARED = GaugeFamily(
    "kubelet_cpu_manager_shared_pool_size_millicores",
    "Thousandths of CPUs that are neither allocated exclusively nor reserved.",
)
EXCLUSIVE = GaugeFamily("kubelet_cpu_manager_exclusive_cpu_allocation_count", "CPUs that are allocated exclusively.")
EXCLUSIVE_OF_NODE = GaugeFamily(
    "kubelet_cpu_manager_allocation_per_numa", "CPUs of a NUMA node that are allocated exclusively.", ("numa_node",)
)
LABELS = ("scope", "boundary")
ALIGNED = CounterFamily(
    "kubelet_container_aligned_compute_resources_count",
    "Containers or pods, by scope, within a boundary: one NUMA node (numa_node, under policy single-numa-node), whole "
    "cores (physical_cpu, under full-pcpus-only), one last-level cache (uncore_cache).",
    LABELS,
)
CORES, CACHE = ("container", "physical_cpu"), ("container", "uncore_cache")
UNALIGNED = CounterFamily(
    "kubelet_container_aligned_compute_resources_failure_count",
    "Containers or pods whose alignment was required and impossible.",
    LABELS,
)


class MachineMetrics:
    """Counts admissions, pinned CPUs and bound memory."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(*ADMISSIONS, registry=registry)
        self.errors = Counter(*ADMISSION_ERRORS, registry=registry)
        self.duration = Histogram(*ADMISSION_MS, buckets=DURATION_MS, registry=registry)
        self._pinned = Counter(*CPU_REQUESTS, registry=registry)
        self._unpinned = Counter(*CPU_ERRORS, registry=registry)
        self._bound = Counter(*MEMORY_REQUESTS, registry=registry)
        self._unbound = Counter(*MEMORY_ERRORS, registry=registry)
        self._shared = Gauge(*SHARED, registry=registry)
        self._exclusive = Gauge(*EXCLUSIVE, registry=registry)
        self._exclusive_of_node = Gauge(*EXCLUSIVE_OF_NODE, registry=registry)
        self._aligned = PlainCounter(*ALIGNED, registry)
        self._failures = PlainCounter(*UNALIGNED, registry)

    def cpus(self, pool: CpuPool | None) -> None:
        if pool is not None:
            exclusive = pool.exclusive
            self._shared.set(1000 * len(pool.free))
            self._exclusive.set(len(exclusive))
            for node in pool.topology.nodes:
                self._exclusive_of_node.labels(node).set(len(exclusive & pool.topology.in_nodes((node,))))

    def aligned_cpus(self, pool: CpuPool, taken: Cpus) -> None:
        """Count an allocation of exclusive CPUs by its boundaries; none were `taken` if it failed."""
        if pool.whole_cores:
            (self._aligned if taken else self._failures).labels(*CORES).inc()
        if len({place.cache for cpu, place in pool.topology.places.items() if cpu in taken}) == 1:
            self._aligned.labels(*CACHE).inc()

    def pinning(self, cpus: bool, memory: bool, failed: PlacementFailed | AdmissionRejected | None) -> None:
        """Count a placement. Memory is requested only once CPUs are allocated."""
        no_memory = isinstance(failed, NoMemory)
        self._pinned.inc(cpus)
        self._unpinned.inc(cpus and failed is not None and not no_memory)
        self._bound.inc(memory and (failed is None or no_memory))
        self._unbound.inc(no_memory)

    def aligned(self, scope: str, policy: str) -> None:
        """Count a container or pod that has all it requested. As upstream, only policy single-numa-node counts."""
        if policy == SINGLE:
            self._aligned.labels(scope, "numa_node").inc()

    def unaligned(self, scope: str, policy: str) -> None:
        """Count a container or pod without a hint that the policy admits."""
        if policy == SINGLE:
            self._failures.labels(scope, "numa_node").inc()

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

"""The statistics methods of RuntimeService."""

import asyncio
import os
import time
from pathlib import Path

from actors.runtime.backends.process_backend import ProcessBackend
from actors.runtime.backends.procfs import ProcessUsage, usage_below
from actors.runtime.model.containers import Container, Sandbox
from actors.runtime.model.pods import RuntimePods
from protocols.wire import cri_pb2 as pb


class StatsMethods:
    """Methods by CRI's names; /proc is read in a thread."""

    def __init__(self, pods: RuntimePods, processes: ProcessBackend, directory: Path) -> None:
        self._pods = pods
        self._processes = processes
        self._directory = directory

    async def ContainerStats(self, request: pb.ContainerStatsRequest) -> pb.ContainerStatsResponse:
        container = self._pods.container(request.container_id)
        return pb.ContainerStatsResponse(stats=(await self._read([container]))[0])

    async def ListContainerStats(self, request: pb.ListContainerStatsRequest) -> pb.ListContainerStatsResponse:
        wanted = request.filter
        containers = self._pods.list_containers(wanted.id, wanted.pod_sandbox_id, None, wanted.label_selector)
        return pb.ListContainerStatsResponse(stats=await self._read(containers))

    async def PodSandboxStats(self, request: pb.PodSandboxStatsRequest) -> pb.PodSandboxStatsResponse:
        return pb.PodSandboxStatsResponse(stats=await self._pod(self._pods.sandbox(request.pod_sandbox_id)))

    async def ListPodSandboxStats(self, request: pb.ListPodSandboxStatsRequest) -> pb.ListPodSandboxStatsResponse:
        sandboxes = self._pods.list_sandboxes(request.filter.id, None, request.filter.label_selector)
        return pb.ListPodSandboxStatsResponse(stats=[await self._pod(sandbox) for sandbox in sandboxes])

    async def _usages(self, containers: list[Container]) -> list[ProcessUsage]:
        shims = [self._processes.shim_pid(container) for container in containers]
        return await asyncio.to_thread(lambda: [usage_below(shim) if shim else ProcessUsage() for shim in shims])

    async def _read(self, containers: list[Container]) -> list[pb.ContainerStats]:
        usages, now = await self._usages(containers), time.time_ns()
        return [self._stats(container, usage, now) for container, usage in zip(containers, usages, strict=True)]

    def _stats(self, container: Container, usage: ProcessUsage, now: int) -> pb.ContainerStats:
        return pb.ContainerStats(
            attributes=pb.ContainerAttributes(
                id=container.id,
                metadata=container.config.metadata,
                labels=container.config.labels,
                annotations=container.config.annotations,
            ),
            cpu=_cpu(usage, now),
            memory=_memory(usage, now),
            writable_layer=pb.FilesystemUsage(
                timestamp=now,
                fs_id=pb.FilesystemIdentifier(mountpoint=os.fspath(self._directory)),
                used_bytes=pb.UInt64Value(value=0),
                inodes_used=pb.UInt64Value(value=0),
            ),
        )

    async def _pod(self, sandbox: Sandbox) -> pb.PodSandboxStats:
        containers = list(sandbox.containers.values())
        usages, now = await self._usages(containers), time.time_ns()
        total = ProcessUsage(*map(sum, zip(*usages, strict=True))) if usages else ProcessUsage()
        stats = [self._stats(container, usage, now) for container, usage in zip(containers, usages, strict=True)]
        return pb.PodSandboxStats(
            attributes=pb.PodSandboxAttributes(
                id=sandbox.id,
                metadata=sandbox.config.metadata,
                labels=sandbox.config.labels,
                annotations=sandbox.config.annotations,
            ),
            linux=pb.LinuxPodSandboxStats(
                cpu=_cpu(total, now),
                memory=_memory(total, now),
                process=pb.ProcessUsage(timestamp=now, process_count=pb.UInt64Value(value=total.processes)),
                containers=stats,
            ),
        )


def _cpu(usage: ProcessUsage, now: int) -> pb.CpuUsage:
    return pb.CpuUsage(timestamp=now, usage_core_nano_seconds=pb.UInt64Value(value=usage.cpu_ns))


def _memory(usage: ProcessUsage, now: int) -> pb.MemoryUsage:
    return pb.MemoryUsage(
        timestamp=now,
        working_set_bytes=pb.UInt64Value(value=usage.rss),
        usage_bytes=pb.UInt64Value(value=usage.rss),
        rss_bytes=pb.UInt64Value(value=usage.rss),
        page_faults=pb.UInt64Value(value=usage.faults),
        major_page_faults=pb.UInt64Value(value=usage.major_faults),
    )

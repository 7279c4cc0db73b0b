"""CPU and memory of the plane's processes from /proc, and the moment at which one of them ends."""

import asyncio
import os
import time
from collections.abc import Callable, Mapping

from supervisor.cli.inspect.top import pss_mib
from supervisor.console.model.plane import ActorUsage
from supervisor.tree.states import usage_of

PSS_S = 10.0
"""The kernel walks all mappings of a process for its PSS, so it is read less often."""


class ProcessSampler:
    """Usage by actor since the last sample. Processes of other machines or users show zeros."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, float, float]] = {}
        self._pss: dict[int, float] = {}
        self._pss_at = float("-inf")

    def sample(self, pids: Mapping[str, int]) -> dict[str, ActorUsage]:
        """Return usage by name; blocks for about a millisecond per process, so run it in a thread."""
        now = time.monotonic()
        fresh = now - self._pss_at >= PSS_S
        if fresh:
            self._pss_at = now
        self._pss = {pid: self._memory(pid, fresh) for pid in pids.values()}
        return {name: self._usage(name, pid, now) for name, pid in pids.items()}

    def _memory(self, pid: int, fresh: bool) -> float:
        return pss_mib(pid) if fresh or not self._pss.get(pid) else self._pss[pid]

    def _usage(self, name: str, pid: int, now: float) -> ActorUsage:
        usage = usage_of(pid)
        cpu = self._cpu(name, pid, now, usage.cpu_s if usage else 0.0)
        return ActorUsage(cpu, self._pss[pid], stopped=usage is not None and usage.stopped)

    def _cpu(self, name: str, pid: int, now: float, used: float) -> float:
        old = self._seen.get(name)
        self._seen[name] = (pid, now, used)
        if old is None or old[0] != pid or now <= old[1]:
            return 0.0
        return max(0.0, (used - old[2]) / (now - old[1]) * 100)


class Deaths:
    """Calls back when a process ends. Uses one descriptor per actor."""

    def __init__(self, callback: Callable[[str], None]) -> None:
        self._callback = callback
        self._watched: dict[str, tuple[int, int]] = {}
        """Pid and pidfd by actor."""

    def watch(self, pids: Mapping[str, int]) -> None:
        """Watch these processes and no others."""
        for name in [name for name, (pid, _) in self._watched.items() if pids.get(name) != pid]:
            self._drop(name)
        for name in pids.keys() - self._watched.keys():
            self._add(name, pids[name])

    def close(self) -> None:
        self.watch({})

    def _add(self, name: str, pid: int) -> None:
        try:
            descriptor = os.pidfd_open(pid)
        except OSError:
            return  # it ended already, or descriptors are scarce: the status reports it
        self._watched[name] = (pid, descriptor)
        asyncio.get_running_loop().add_reader(descriptor, self._ended, name)

    def _ended(self, name: str) -> None:
        self._drop(name)
        self._callback(name)

    def _drop(self, name: str) -> None:
        _, descriptor = self._watched.pop(name)
        asyncio.get_running_loop().remove_reader(descriptor)
        os.close(descriptor)

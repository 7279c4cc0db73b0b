"""A pod of a DaemonSet as the program that is judged: created, killed by its processes, deleted."""

import asyncio
import math
import os
import select
import signal
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from protocols.kube.pods import is_finished
from protocols.process.tasks import Tasks, restarted
from supervisor.base.errors import UsageError
from supervisor.conform.async_api import Object
from supervisor.conform.manifest.pods import ManifestPods, ended, family, is_running, path_of, statuses, stuck
from supervisor.conform.program import END_S, LINES, Program, tail
from supervisor.conform.waiting import ChangeSignal
from supervisor.testing.api import ApiError

START_S, GONE_S, DEAD_S = 60.0, 30.0, 5.0
POLL_S, DEAD_POLL_S = 0.2, 0.01
SPARE_S = 30
"""Added to the grace period, so that a container that does not end is still there when its time is over."""
OF_SIGNAL = 128
LOG_FIELDS = 3
"""Time, stream and tag before the text of a line."""


class PodNotStarted(UsageError, grpc="FAILED_PRECONDITION"):
    """Raised when the pod of the DaemonSet is rejected, or waits for what does not come."""


class PodLauncher(NamedTuple):
    """`body` is the pod without a name, `name` what that begins with."""

    pods: ManifestPods
    body: Object
    name: str
    environment: Mapping[str, str]

    def program(self) -> Program:
        return PodProgram(self.pods, self.body, self.name)

    def excluded(self, name: str, phase: str) -> str:
        return ""


class PodProgram(Program):
    """A program in a pod; it runs as long as none of the pod's containers has ended."""

    def __init__(self, pods: ManifestPods, body: Object, name: str) -> None:
        self._pods, self._body, self._name = pods, body, name
        self._pod: Object = {}
        """As it was read last; {} before the start and when it is gone."""
        self._path = ""
        self._processes: dict[int, int] = {}
        """Descriptor by pid: it stays that of the process when another one gets the pid."""
        self._marks: dict[Path, int] = {}
        self._changes = ChangeSignal()
        self._tasks = Tasks()

    async def start(self) -> None:
        """Create the pod, and wait until its containers run. Raises PodNotStarted."""
        self.told_to_end = False
        try:
            self._pod = await self._pods.create(self._body, self._name)
        except ApiError as error:
            raise PodNotStarted(f"the pod of DaemonSet {self._name} is rejected: {error}") from None
        self._path = path_of(self._pod)
        self._tasks = Tasks()
        self._tasks.start(restarted(self._follow, "follows its pod"), "follows its pod")
        await self._changes.until(lambda: self._is_up() or not self.runs or bool(stuck(self._pod)), START_S)
        if self.runs and not self._is_up():
            why = stuck(self._pod) or f"its containers do not run within {START_S:g} s"
            raise PodNotStarted(f"the pod of DaemonSet {self._name} does not start: {why}")
        for pid in await self._pods.pids(self._pod) if self.runs else ():
            with suppress(ProcessLookupError):
                self._processes[pid] = os.pidfd_open(pid)

    async def _follow(self) -> None:
        while self._pod:
            self._pod = await self._pods.read(self._path)
            self._changes.notify()
            await asyncio.sleep(POLL_S)

    def _is_up(self) -> bool:
        names = {container["name"] for container in self._body["spec"]["containers"]}
        return names <= {status["name"] for status in statuses(self._pod) if is_running(status)}

    @property
    def runs(self) -> bool:
        return bool(self._pod) and not is_finished(self._pod) and ended(self._pod) is None

    @property
    def end(self) -> str:
        if not self._pod:
            return "its pod is gone"
        if termination := ended(self._pod):
            if termination.code > OF_SIGNAL and termination.code - OF_SIGNAL in set(signal.Signals):
                return f"it was ended by {signal.Signals(termination.code - OF_SIGNAL).name}"
            return f"it ended with code {termination.code}" + (f" ({termination.text})" if termination.text else "")
        status = self._pod.get("status") or {}
        failed = f"its pod failed: {status.get('reason', '')}: {status.get('message', '')}"
        return failed if status.get("phase") == "Failed" else "it runs"

    async def terminate(self, seconds: float = END_S) -> bool:
        """Delete the pod: its containers are sent SIGTERM, and not killed before the time is over."""
        self.told_to_end = True
        if self._path:
            await self._pods.delete(self._path, math.ceil(seconds) + SPARE_S)
        in_time = await self._changes.until(lambda: not self.runs, seconds)
        await self.kill()
        return in_time

    async def kill(self) -> None:
        """SIGKILL to the first process of each container, with which its others end; then delete the pod."""
        self.told_to_end = True
        if not self._path:
            return
        for descriptor in self._processes.values():
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        for descriptor in self._processes.values():
            await _dead(descriptor)
            os.close(descriptor)
        self._processes.clear()
        await self._pods.delete(self._path, 0)
        await self._changes.until(lambda: not self._pod, GONE_S)
        await self._tasks.close()
        self._pod, self._path = {}, ""

    def processes(self) -> list[Path]:
        return family(self._processes)

    def printed(self) -> tuple[str, ...]:
        """Return the ends of its containers' logs; those of a deleted pod are gone."""
        lines: list[str] = []
        for path in self._pods.logs(self._pod) if self._pod else ():
            with suppress(OSError):
                text, self._marks[path] = tail(path, self._marks.get(path, 0))
                lines += [line.split(" ", LOG_FIELDS)[-1] for line in text.splitlines()]
        return tuple(lines[-LINES:])


async def _dead(descriptor: int) -> None:
    """Wait until a process has ended, at most DEAD_S."""
    watched = select.poll()
    watched.register(descriptor, select.POLLIN)
    for _ in range(round(DEAD_S / DEAD_POLL_S)):
        if watched.poll(0):
            return
        await asyncio.sleep(DEAD_POLL_S)

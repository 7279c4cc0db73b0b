"""Run a scenario on a fleet: make its claim template, fill the nodes, let pods come and go, measure, clean up."""

import asyncio
import os
import time
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from actors.fleet.shell.fleet import Fleet
from actors.fleet.simulated.pod import Pod
from actors.fleet.workload.figures import PhaseFigures, Startups
from actors.fleet.workload.objects import ScenarioObjects
from actors.fleet.workload.scenario import MAX_PODS, Scenario
from protocols.errors import NodeplaneError
from protocols.kinds.table import (
    DEVICECLASSES,
    DEVICETAINTRULES,
    NAMESPACES,
    PODS,
    RESOURCECLAIMS,
    RESOURCECLAIMTEMPLATES,
    SERVICEACCOUNTS,
    Resource,
)
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import Object
from protocols.kube.pods import FINISHED
from protocols.lifecycle.pods.hollow import DURATION
from protocols.process.tasks import Tasks, wait_set

TICKS = os.sysconf("SC_CLK_TCK")
PREFIX = "np-"
"""Begin of the names of a plane's processes."""


def cpu_seconds(supervisor: int, names: frozenset[str] = frozenset()) -> dict[str, float]:
    """Return CPU seconds by name: of all that the supervisor started, and of processes with one of the names.

    `supervisor`: its process id, 0 for none. The kernel cuts names at 15 characters.
    """
    by_name: dict[str, float] = defaultdict(float)
    processes = dict(_processes())
    for pid, (name, _, seconds) in processes.items():
        if name in names or (supervisor and _descends(pid, supervisor, processes)):
            by_name[name.removeprefix(PREFIX)] += seconds
    return by_name


def _processes() -> Iterator[tuple[int, tuple[str, int, float]]]:
    """Yield id, name, parent and CPU seconds of every process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "stat").read_text(errors="replace")
            except OSError:
                continue  # it has ended
            name, _, rest = text.partition("(")[2].rpartition(")")
            fields = rest.split()
            yield int(entry.name), (name, int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS)


def _descends(pid: int, ancestor: int, processes: dict[int, tuple[str, int, float]]) -> bool:
    while pid in processes and pid != ancestor:
        pid = processes[pid][1]
    return pid == ancestor


CREATORS = 16
"""Pods that are created at once."""
MOST_AT_ONCE = 500
"""Pods of the steady phase that are being created; an API that is slower than the rate slows it."""
ENDS_S = 120.0
"""A phase ends when no pod has come to run for so long."""
ACCOUNT_S, ACCOUNT_POLL_S = 10.0, 0.05
"""Longest wait for the service account of a namespace, and time between two looks."""
CLEAN_S = 300.0
"""Deadline of the end of all pods after a scenario."""
ANSWER_S = 10.0
"""Time in which the API must answer before anything is deleted: each deletion has a deadline of its own."""
GATEWAY_TIMEOUT = 504
OWN = "fleet"
"""Name of this process in the figures."""


class RunnerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the run's objects, and the processes whose CPU is counted."""

    name: str
    """Name of the fleet; its pods are in a namespace `fleet-NAME-...`."""
    supervisor: int = 0
    """Process id of the plane's supervisor; 0 if the API is not that of a plane on this machine."""
    processes: frozenset[str] = frozenset()
    """Names of other processes whose CPU is counted."""


class ScenarioRunner:
    """Plays one scenario; `on_status` is the fleet's callback for statuses that the API took."""

    def __init__(self, fleet: Fleet, scenario: Scenario, options: RunnerOptions, say: Callable[[str], None]) -> None:
        self._fleet = fleet
        self._client = fleet.client
        self._scenario = scenario
        self._options = options
        self._say = say
        self._space = f"fleet-{options.name}-{uuid.uuid4().hex[:5]}"
        """Namespace of the pods: one of its own, as that of the last run may still be ending."""
        self._objects = ScenarioObjects(scenario, options.name, self._space)
        self._startups = Startups("")
        self._deleted: dict[str, asyncio.Event] = {}
        """Set when a pod of the second phase is deleted, by its name."""
        self._progress = asyncio.Event()
        self._tasks = Tasks()
        self.ends_s = ENDS_S
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        fleet.pods.on_status = self.on_status

    def on_status(self, pod: Pod, status: Object) -> None:
        """Note the start of a pod; delete one that has ended."""
        if pod.namespace != self._space:
            return
        phase = status.get("phase")
        if pod.rejected is not None:
            self._startups.rejected(pod.name)
            self._progress.set()
        elif phase == "Running" or phase in FINISHED:
            self._startups.ran(pod.name, time.monotonic())
            self._progress.set()
        if phase in FINISHED:
            task = self._tasks.start(self._fleet.pods.delete(pod), "deletion of a pod", pod.name)
            task.add_done_callback(lambda done: self._ended(pod.name))

    def _ended(self, name: str) -> None:
        self._progress.set()
        if deleted := self._deleted.get(name):
            deleted.set()

    async def run(self) -> tuple[PhaseFigures, ...]:
        """Return the figures of the phases that there are. Raises ApiError, ApiAway."""
        await self._prepare()
        phases = []
        scenario = self._scenario
        if filling := scenario.filling(len(self._fleet.nodes)):
            phases.append(await self._measured("fill", lambda: self._fill(filling)))
            self._say(f"{filling} pods fill {len(self._fleet.nodes)} nodes")
        if scenario.together:
            phases.append(await self._measured("steady", self._follow_each_other))
        elif scenario.steady_rate(len(self._fleet.nodes)):
            phases.append(await self._measured("steady", self._come_and_go))
        return tuple(phases)

    async def clean(self) -> None:
        """Delete what the scenario made. The fleet goes on meanwhile, as pods end only when their node says so.

        Raises ApiAway if the API does not answer; then all of it stays.
        """
        self._fleet.pods.on_status = lambda pod, status: None
        await self._tasks.close()
        try:
            await self._client.get(NAMESPACES, self._space, timeout=ANSWER_S)
        except ApiAway as error:
            self._say(f"what the scenario made stays, with namespace {self._space}: {error}")
            raise
        except ApiError:
            pass  # it answers
        for resource in self._cluster_objects():
            await self._deleted_or_said(resource, self._objects.cluster_name)
        try:
            async with asyncio.timeout(CLEAN_S):
                await self._delete_pods()
                await self._gone()
        except (NodeplaneError, TimeoutError) as error:
            self._say(f"pods of namespace {self._space} could not be deleted: {error or 'time is over'}")
        await self._deleted_or_said(NAMESPACES, self._space)

    async def _delete_pods(self) -> None:
        """Delete all pods: a server works on one request for half a minute, and leaves the rest to the next."""
        while True:
            try:
                return await self._client.delete_collection(PODS, self._space)
            except ApiError as error:
                if error.code != GATEWAY_TIMEOUT:
                    raise

    async def _deleted_or_said(self, resource: Resource, name: str) -> None:
        try:
            await self._client.delete(resource, name)
        except NodeplaneError as error:
            if not (isinstance(error, ApiError) and error.code == 404):
                self._say(f"{resource.plural} {name} could not be deleted: {error}")

    async def _gone(self) -> None:
        """Wait until the fleet has none of its pods."""
        while any(pod.namespace == self._space for pod in self._fleet.pods.pods.values()):
            await self._fleet.pods.left.wait()
            self._fleet.pods.left.clear()

    def _cluster_objects(self) -> dict[Resource, Object]:
        """Return those without a namespace."""
        objects = {DEVICECLASSES: self._objects.device_class()} if self._scenario.driver else {}
        return objects | ({DEVICETAINTRULES: self._objects.taint_rule()} if self._scenario.taint else {})

    async def _prepare(self) -> None:
        await self._ensure(NAMESPACES, self._objects.namespace())
        await self._service_account()
        for resource, obj in self._cluster_objects().items():
            await self._ensure(resource, obj)
        if self._scenario.driver and not self._scenario.resource:
            await self._ensure(RESOURCECLAIMTEMPLATES, self._objects.claim_template(), self._space)

    async def _service_account(self) -> None:
        """Wait for the namespace's account, which a controller makes: no pod is admitted before."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ACCOUNT_S):
                while not (await self._client.list(SERVICEACCOUNTS, self._space)).get("items"):  # noqa: ASYNC110
                    await asyncio.sleep(ACCOUNT_POLL_S)

    async def _ensure(self, resource: Resource, obj: Object, namespace: str = "") -> None:
        try:
            await self._client.create(resource, obj, namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def _measured(self, phase: str, work: Callable[[], Awaitable[None]]) -> PhaseFigures:
        self._startups = Startups(phase)
        before = self._cpu()
        await work()
        await self._settled()
        return self._startups.figures({name: spent - before.get(name, 0.0) for name, spent in self._cpu().items()})

    async def _fill(self, count: int) -> None:
        names = iter(range(count))

        async def create_some() -> None:
            for number in names:
                await self._create("fill", number, {})

        await asyncio.gather(*(self._tasks.start(create_some(), "creation of a pod") for _ in range(CREATORS)))

    async def _come_and_go(self) -> None:
        """Create pods at the rate, whatever becomes of them."""
        scenario, began = self._scenario, time.monotonic()
        rate = scenario.steady_rate(len(self._fleet.nodes))
        for number in range(int(rate * scenario.seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            await self._slots.acquire()
            task = self._tasks.start(self._create("steady", number, self._lives()), "creation of a pod")
            task.add_done_callback(self._created)

    def _lives(self) -> dict[str, str]:
        return {DURATION: f"{int(self._scenario.lives * 1000)}ms"} if self._scenario.lives else {}

    async def _follow_each_other(self) -> None:
        numbers, until = iter(range(MAX_PODS)), time.monotonic() + self._scenario.seconds

        async def one_after_another() -> None:
            while time.monotonic() < until and (number := next(numbers, None)) is not None:
                await self._whole_life(number)

        await asyncio.gather(*(one_after_another() for _ in range(self._scenario.together)))

    async def _whole_life(self, number: int) -> None:
        """Create a pod and wait until it is deleted; one that does not come to run is given up."""
        deleted = self._deleted[f"steady-{number}"] = asyncio.Event()
        created = self._tasks.start(self._create("steady", number, self._lives()), "creation of a pod")
        await asyncio.wait([created])
        if created.exception() is None:
            await wait_set(deleted, self.ends_s)
        del self._deleted[f"steady-{number}"]

    def _created(self, task: "asyncio.Task[None]") -> None:
        self._slots.release()
        self._progress.set()

    async def _settled(self) -> None:
        """Wait until all pods of the phase ran, or none has for ENDS_S."""
        while self._startups.waiting or len(self._tasks):
            self._progress.clear()
            if not await wait_set(self._progress, self.ends_s):
                return

    async def _create(self, phase: str, number: int, annotations: dict[str, str]) -> None:
        name = f"{phase}-{number}"
        self._startups.created(name, time.monotonic())
        claim = ""
        if share := self._scenario.pods_per_claim:
            claim = f"{phase}-{number // share}"
            if number % share == 0:
                await self._client.create(RESOURCECLAIMS, self._objects.claim(claim), self._space)
        await self._client.create(PODS, self._objects.pod(name, annotations, claim), self._space)

    def _cpu(self) -> dict[str, float]:
        seconds = cpu_seconds(self._options.supervisor, self._options.processes)
        times = os.times()
        seconds[OWN] = times.user + times.system
        return seconds

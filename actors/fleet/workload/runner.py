"""Run a scenario on a fleet: make its claim template, fill the nodes, let pods come and go, measure, clean up."""

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Awaitable, Callable

import msgspec

from actors.fleet.shell.fleet import Fleet
from actors.fleet.shell.nodes import FLEET
from actors.fleet.simulated.pod import Pod
from actors.fleet.workload.cpu import cpu_seconds
from actors.fleet.workload.figures import PhaseFigures, Startups
from actors.fleet.workload.scenario import Scenario
from protocols.errors import NodeplaneError
from protocols.kinds.table import DEVICECLASSES, NAMESPACES, PODS, RESOURCECLAIMTEMPLATES, Resource
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object
from protocols.kube.pods import FINISHED
from protocols.lifecycle.pods.hollow import DURATION
from protocols.process.tasks import Tasks

CREATORS = 16
"""Pods that are created at once."""
MOST_AT_ONCE = 500
"""Pods of the steady phase that are being created; an API that is slower than the rate slows it."""
ENDS_S = 120.0
"""A phase ends when no pod has come to run for so long."""
CLEAN_S = 60.0
"""Deadline of the end of all pods after a scenario."""
OWN = "fleet"
"""Name of this process in the figures."""
log = logging.getLogger("fleet")


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
        self._startups = Startups("")
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
        if phase == "Running" or phase in FINISHED:
            self._startups.ran(pod.name, time.monotonic())
            self._progress.set()
        if phase in FINISHED:
            task = self._tasks.start(self._fleet.pods.delete(pod), "deletion of a pod", pod.name)
            task.add_done_callback(lambda done: self._progress.set())

    async def run(self) -> tuple[PhaseFigures, ...]:
        """Return the figures of the phases that there are. Raises ApiError, ApiAway."""
        await self._prepare()
        phases = []
        scenario = self._scenario
        if filling := scenario.filling(len(self._fleet.nodes)):
            phases.append(await self._measured("fill", lambda: self._fill(filling)))
            self._say(f"{filling} pods fill {len(self._fleet.nodes)} nodes")
        if scenario.steady_rate(len(self._fleet.nodes)):
            phases.append(await self._measured("steady", self._come_and_go))
        return tuple(phases)

    async def clean(self) -> None:
        """Delete what the scenario made. The fleet goes on meanwhile, as pods end only when their node says so."""
        self._fleet.pods.on_status = lambda pod, status: None
        await self._tasks.close()
        try:
            await self._client.delete_collection(PODS, self._space)
            async with asyncio.timeout(CLEAN_S):
                await self._gone()
            await self._client.delete(NAMESPACES, self._space)
            if self._scenario.driver:
                await self._client.delete(DEVICECLASSES, self._class)
        except (NodeplaneError, TimeoutError) as error:
            self._say(f"namespace {self._space} stays, its pods could not be deleted: {error or 'time is over'}")

    async def _gone(self) -> None:
        """Wait until the fleet has none of its pods."""
        while any(pod.namespace == self._space for pod in self._fleet.pods.pods.values()):
            await self._fleet.pods.left.wait()
            self._fleet.pods.left.clear()

    @property
    def _class(self) -> str:
        return f"{self._space}.{self._scenario.driver}"

    async def _prepare(self) -> None:
        await self._ensure(NAMESPACES, {"metadata": {"name": self._space}})
        if not self._scenario.driver:
            return
        expression = f"device.driver == {self._scenario.driver!r}"
        selectors = [{"cel": {"expression": expression}}]
        await self._ensure(DEVICECLASSES, {"metadata": {"name": self._class}, "spec": {"selectors": selectors}})
        request = {"deviceClassName": self._class, **self._scenario.request}
        devices = {"requests": [{"name": "device", "exactly": request}]}
        template = {"metadata": {"name": "device"}, "spec": {"spec": {"devices": devices}}}
        await self._ensure(RESOURCECLAIMTEMPLATES, template, self._space)

    async def _ensure(self, resource: Resource, obj: Object, namespace: str = "") -> None:
        try:
            await self._client.create(resource, {**resource.type_meta, **obj}, namespace)
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
                await self._create(f"fill-{number}", {})

        await asyncio.gather(*(self._tasks.start(create_some(), "creation of a pod") for _ in range(CREATORS)))

    async def _come_and_go(self) -> None:
        """Create pods at the rate, whatever becomes of them."""
        scenario, began = self._scenario, time.monotonic()
        rate = scenario.steady_rate(len(self._fleet.nodes))
        lives = {DURATION: f"{int(scenario.lives * 1000)}ms"} if scenario.lives else {}
        for number in range(int(rate * scenario.seconds)):
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
            await self._slots.acquire()
            task = self._tasks.start(self._create(f"steady-{number}", lives), "creation of a pod")
            task.add_done_callback(self._created)

    def _created(self, task: "asyncio.Task[None]") -> None:
        self._slots.release()
        self._progress.set()

    async def _settled(self) -> None:
        """Wait until all pods of the phase ran, or none has for ENDS_S."""
        while self._startups.waiting or len(self._tasks):
            self._progress.clear()
            try:
                async with asyncio.timeout(self.ends_s):
                    await self._progress.wait()
            except TimeoutError:
                return

    async def _create(self, name: str, annotations: dict[str, str]) -> None:
        self._startups.created(name, time.monotonic())
        await self._client.create(PODS, self._pod(name, annotations), self._space)

    def _pod(self, name: str, annotations: dict[str, str]) -> Object:
        container: Object = {"name": "main", "image": "hollow/pod"}
        spec: Object = {
            "nodeSelector": {FLEET: self._options.name},
            "containers": [container],
            "restartPolicy": "Never",
        }
        if self._scenario.driver:
            spec["resourceClaims"] = [{"name": "device", "resourceClaimTemplateName": "device"}]
            container["resources"] = {"claims": [{"name": "device"}]}
        if self._scenario.resource:
            container["resources"] = {"limits": {self._scenario.resource: "1"}}
        metadata = {"name": name, "annotations": annotations}
        return {**PODS.type_meta, "metadata": metadata, "spec": spec}

    def _cpu(self) -> dict[str, float]:
        found = cpu_seconds(self._options.supervisor, self._options.processes)
        times = os.times()
        found[OWN] = times.user + times.system
        return found

"""The stage of a script about agents: programs that ask the pod resources API which pod has which device."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from protocols.process.tasks import Tasks, restarted
from protocols.wire.pod_resources import LIST_AND_WATCH
from supervisor.base.errors import UsageError
from supervisor.conform.agent.resources_server import ResourcesServer, ServedCall
from supervisor.conform.profiles import GENERIC, PROFILES, Profile
from supervisor.conform.program import Launcher, output_of
from supervisor.conform.program_stage import START_FACTOR, NotServing, Running
from supervisor.conform.verdict import Failed, NotApplicable

WATCH = LIST_AND_WATCH.name
POLL_S = 0.2
SETTLE_S = 1.0
"""Time in which an agent makes all the calls that it begins with."""
ASK_S = 1.0
"""Pause between two runs of --shows while nothing is looked for in what it prints."""


class AgentStage(Running):
    """The program under test and the played pod resources API."""

    SUBJECT: ClassVar[str] = "agent"

    def __init__(
        self, directory: Path, launcher: Launcher, timeout: float, profile: Profile = PROFILES[GENERIC]
    ) -> None:
        """`directory` is the kubelet's."""
        super().__init__(launcher, timeout)
        self.server = ResourcesServer(directory, self.recorder, profile)
        self.changes = self.server.changes
        self._tasks = Tasks()

    async def start_program(self) -> None:
        await super().start_program()
        if self.shows_with:
            self._tasks.start(restarted(self._ask, "asks the agent"), "asks the agent")

    async def _ask(self) -> None:
        """Run --shows again and again: exporters call the kubelet only when somebody asks them."""
        while True:
            with suppress(UsageError):  # the agent may hang with its kubelet
                await output_of(self.shows_with, self.launcher.environment, self.timeout, quiet=True)
            await asyncio.sleep(ASK_S)

    async def peers(self) -> list[ServedCall]:
        """Return the calls since the program began, at least one. Raises NotServing."""
        self._check_able()
        begins = not (self._begun and self.program.runs and self.calls())
        if begins:
            await self._begin()
        if not await self.until(lambda: bool(self.calls()), self.timeout * START_FACTOR):
            why = self.silence("call of the pod resources API", self.timeout * START_FACTOR)
            self._unable = why
            raise NotServing(self.SUBJECT, why)
        if begins:
            self.started_in = self.calls()[0].at - self._started
            await asyncio.sleep(SETTLE_S)
        return self.calls()

    async def _begin(self) -> None:
        """Start a server with the pods of the profile, and the program."""
        await self.end()
        self.restore()
        await self.server.start()
        await self.start_program()

    def restore(self) -> None:
        """Serve as a healthy kubelet."""
        self.server.failing, self.server.unsupported, self.server.hanging = "", (), False
        self.server.pods.clear()
        for number in range(self.server.pods.profile.pods):
            self.server.pods.add(f"pod-{number}")
        self.server.changes.notify()

    def calls(self, since: float = 0.0) -> list[ServedCall]:
        """Return the calls since then, and since the program began."""
        return [call for call in self.server.calls if call.at >= max(since, self._started)]

    async def watches(self) -> bool:
        """Return True if it has a stream of ListAndWatch, or asked for one."""
        return any(call.method == WATCH for call in await self.peers())

    async def needs_watch(self) -> None:
        """Raise NotApplicable for an agent that polls."""
        if not await self.watches():
            raise NotApplicable("it polls: it does not call ListAndWatch")

    async def returns(self, what: str, since: float, seconds: float = 0.0) -> None:
        """Wait for a call, or a stream, since then. Raises Failed."""
        seconds = seconds or self.timeout
        if not await self.until(lambda: bool(self.calls(since)), seconds):
            if not self.program.runs:
                raise Failed(f"{what} {self.program.end}")
            hint = (
                ""
                if any(call.streams for call in self.calls())
                else "; if it polls less often, give a longer --timeout"
            )
            raise Failed(f"{what} no call came within {seconds:g} s{hint}")

    async def shows_new(self, name: str) -> None:
        """Add a pod and wait until it is shown. Raises NotApplicable if it is not: other scripts judge that."""
        self.server.pods.add(name)
        self.server.changes.notify()
        try:
            await self.shown(lambda text: name in text, f"pod {name} is not shown")
        except Failed as error:
            self.check_runs()
            raise NotApplicable(f"it shows no new pod: {error}") from None

    async def shown(self, holds: Callable[[str], bool], what: str) -> None:
        """Wait until the user's command prints it. Raises Failed, NotApplicable."""
        if not self.shows_with:
            raise NotApplicable("it needs --shows, a command that prints the pods that the agent knows")
        deadline = time.monotonic() + self.timeout
        while not holds(await output_of(self.shows_with, self.launcher.environment, self.timeout)):
            self.check_runs()
            if time.monotonic() > deadline:
                raise Failed(f"{what}, {self.timeout:g} s later")
            await asyncio.sleep(POLL_S)

    async def end(self) -> None:
        await self._tasks.close()
        await super().end()
        await self.server.stop()

"""The stage of a behaviour's script: the program, the played kubelet and the connections to its plugins.

`plugins` makes everything run and serve first, so that each script may leave the stage as it likes.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from supervisor.conform.exchange import Exchange, Recorder
from supervisor.conform.kubelet import Attempt, Kubelet
from supervisor.conform.peer import PluginPeer
from supervisor.conform.program import Program, run_shell
from supervisor.conform.verdict import Failed, NotApplicable

START_FACTOR = 3
"""A program may take that many times as long to start as it may to answer."""
OTHER_WAY = (
    "; it has a socket in plugins_registry: DRA drivers, and device plugins that register there, are not judged yet"
)
SETTLE_S = 0.5
"""Time without a further resource after which the program has registered all of its resources."""


class NotServing(NotApplicable):
    """Raised for a script that needs a plugin which serves, when none does; `why` is the reason alone."""

    def __init__(self, why: str) -> None:
        super().__init__(f"no plugin serves: {why}")
        self.why = why


class Stage:
    def __init__(
        self, directory: Path, own: Path, words: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> None:
        """`directory` is the kubelet's, `own` one for files that the program does not see."""
        self.timeout = timeout
        self.recorder = Recorder()
        self.kubelet = Kubelet(directory, self.recorder, timeout)
        self._command = (words, environment, own / "output")
        self.program = self.another_program()
        self.break_with, self.mend_with = "", ""
        """Shell commands that make devices unhealthy, and healthy again."""
        self.resources: set[str] = set()
        """Resources of the program, once it serves."""
        self.history: list[dict[str, list[str]]] = []
        """Ids by resource, for each time that the program served anew."""
        self._served: list[PluginPeer] = []
        self.started_in = 0.0
        """Seconds from the start of the program to its first Register."""
        self._first: Attempt | None = None
        self._begun = False
        self._started = 0.0
        self._unable = ""
        """Why the program has never served; no script tries it again."""

    def another_program(self) -> Program:
        """Return a second process of COMMAND that is not started."""
        return Program(*self._command)

    async def first_attempt(self) -> Attempt:
        """Return the first Register call. Raises NotServing if none came."""
        if self._first is None:
            self._check_able()
            await self._begin()
            if not await self._until(lambda: bool(self.kubelet.attempts), self.timeout * START_FACTOR):
                self._unable = self.silence("Register", self.timeout * START_FACTOR)
                self._check_able()
            self._first = self.kubelet.attempts[0]
        self.show(self._first.exchange, self._first.options_exchange)
        return self._first

    async def plugins(self) -> list[PluginPeer]:
        """Return the connection of each resource, with its first list. Raises NotServing."""
        self._check_able()
        if self.history and self._begun and self.program.runs:
            with suppress(Failed):
                return await self.serve()
        if self.history or not self._begun:
            await self._begin()
        try:
            return await self.serve_started()
        except Failed as error:
            self._unable = "" if self.history else str(error)
            raise NotServing(str(error)) from None

    def _check_able(self) -> None:
        if self._unable:
            raise NotServing(self._unable)

    def check_runs(self) -> None:
        """Raise Failed if the program has ended by itself."""
        if self._begun and not self.program.runs:
            raise Failed(f"the program ended meanwhile: {self.program.end}")

    async def serve(self, seconds: float | None = None) -> list[PluginPeer]:
        """Wait until all resources are registered and listed; return their connections. Raises Failed."""
        seconds = self.timeout if seconds is None else seconds
        if not await self._until(lambda: self._is_registered(), seconds):
            raise Failed(self._why_not(seconds))
        if not self.resources:
            self.started_in = self.kubelet.attempts[0].at - self._started
            await self._settle()
        peers = [self.kubelet.serving[resource] for resource in sorted(self.resources)]
        for peer in peers:
            await peer.first_list()
            if peer.lists and peer.lists.ended:
                raise Failed(f"ListAndWatch of {peer.resource} ended: {peer.lists.ended}")
        if peers != self._served:
            self._served = peers
            self.history.append({peer.resource: peer.ids for peer in peers})
        return peers

    def _is_registered(self) -> bool:
        serving = self.kubelet.serving
        return self.resources <= serving.keys() if self.resources else bool(serving)

    async def _settle(self) -> None:
        while self.resources != self.kubelet.serving.keys():
            self.resources = set(self.kubelet.serving)
            await asyncio.sleep(SETTLE_S)

    async def shell(self, script: str) -> None:
        """Run a shell command of the user's with the variables of the program. Raises Usage."""
        await run_shell(script, self._command[1], self.timeout)

    async def _begin(self) -> None:
        """Start kubelet and program from nothing."""
        await self.end()
        await self.kubelet.start()
        await self.start_program()

    async def start_program(self) -> None:
        self._started = time.monotonic()
        await self.program.start()
        self._begun = True

    async def restart_program(self) -> None:
        """SIGKILL, and start again beside the same kubelet."""
        await self.program.kill()
        await self.kubelet.forget()
        await self.start_program()

    async def serve_started(self) -> list[PluginPeer]:
        """Wait as `serve`, as long as a start may take."""
        return await self.serve(self.timeout * START_FACTOR)

    async def _until(self, holds: Callable[[], bool], seconds: float) -> bool:
        return await self.kubelet.until(holds, seconds, over=lambda: not self.program.runs)

    def _why_not(self, seconds: float) -> str:
        faults = [attempt.fault for attempt in self.kubelet.attempts if attempt.fault]
        if faults:
            return f"Register was rejected: {faults[-1]}"
        missing = ", ".join(sorted(self.resources - self.kubelet.serving.keys()))
        return self.silence(f"Register of {missing}" if missing else "Register", seconds)

    def silence(self, call: str, seconds: float) -> str:
        """Return the sentence for a call that did not come."""
        why = f" within {seconds:g} s" if self.program.runs else f": {self.program.end}"
        return f"no {call} came{why}{OTHER_WAY if self.kubelet.other_sockets() else ''}"

    async def restart_kubelet(self, away: float = 0.0) -> None:
        """Stop kubelet, wait, and start it with a new socket."""
        await self.kubelet.stop()
        await asyncio.sleep(away)
        await self.kubelet.start()

    async def returns(self) -> tuple[list[PluginPeer], float]:
        """Wait until the plugins serve the new kubelet; return them and the seconds that took. Raises Failed."""
        began = time.monotonic()
        return await self.serve(), time.monotonic() - began

    def show(self, *exchanges: Exchange | None) -> None:
        """Add exchanges of before to the evidence of the current script."""
        for exchange in exchanges:
            if exchange is not None:
                self.recorder.add(exchange)

    def soil(self) -> None:
        """Have the next script begin with a new kubelet and a new process."""
        self._begun = False

    async def end(self) -> None:
        await self.program.kill()
        await self.kubelet.stop()
        self._begun = False

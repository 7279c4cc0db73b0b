"""The parts of every stage: the program, the played kubelet, and the connections to what the program serves.

`peers` makes everything run and serve first, so that each script may leave the stage as it likes.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import ClassVar, Generic

from supervisor.conform.busy import until_asleep
from supervisor.conform.exchange import Exchange, ExchangeRecorder
from supervisor.conform.played import MAX_ATTEMPTS, REJECTED, P, PlayedKubelet, R
from supervisor.conform.program import Launcher, Program, run_shell
from supervisor.conform.verdict import Failed, NotApplicable
from supervisor.conform.waiting import ChangeSignal

START_FACTOR = 3
"""A program may take that many times as long to start as it may to answer."""
HEAD_START = 2
"""A program that starts alone gets so many times as long as its start took before, to look for what it calls."""
SETTLE_S = 0.5
"""Time without a further registration after which the program has registered all it has."""


class NotServing(NotApplicable):
    """Raised for a script that needs a program which serves, when none does; `why` is the reason alone."""

    def __init__(self, subject: str, why: str) -> None:
        super().__init__(f"no {subject} serves: {why}")
        self.why = why


class Running:
    """The program alone, and the evidence of the script that runs."""

    SUBJECT: ClassVar[str] = "program"

    def __init__(self, launcher: Launcher, timeout: float) -> None:
        self.timeout = timeout
        self.recorder = ExchangeRecorder()
        self.launcher = launcher
        self.program = launcher.program()
        self.break_with, self.mend_with, self.shows_with = "", "", ""
        """Shell commands that break devices, that mend them, and that print the pods that an agent knows."""
        self.changes = ChangeSignal()
        self._begun = False
        self._started = 0.0
        self.started_in = 0.0
        """Seconds from the start of the program to its first call or registration."""
        self._unable = ""
        """Why the program has never served; no script tries it again."""

    def another_program(self) -> Program:
        """Return a second instance that is not started."""
        return self.launcher.program()

    async def start_program(self) -> None:
        self._started = time.monotonic()
        await self.program.start()
        self._begun = True

    async def start_alone(self, least: float, missing: str) -> None:
        """Start the program without what it calls, and let it look for that. Raises NotApplicable if it ends."""
        await self.end()
        await self.start_program()
        await asyncio.sleep(max(least, HEAD_START * self.started_in))
        await until_asleep(self.program, START_FACTOR * self.timeout)  # it may take longer than the start before
        if not self.program.runs:
            self.soil()
            raise NotApplicable(f"without {missing} {self.program.end}: its container is started again, with back-off")

    async def until(self, holds: Callable[[], bool], seconds: float) -> bool:
        """Wait until it holds; return False if it does not in time, or the program has ended."""
        return await self.changes.until(holds, seconds, over=lambda: not self.program.runs)

    async def shell(self, script: str) -> None:
        """Run a shell command of the user's with the variables of the program. Raises UsageError."""
        await run_shell(script, self.launcher.environment, self.timeout)

    async def reported_after(self, script: str, what: str, holds: Callable[[], bool]) -> None:
        """Run a shell command of the user's, and wait until it holds. Raises Failed, UsageError."""
        await self.shell(script)
        if not await self.until(holds, self.timeout):
            raise Failed(f"no {what} came within {self.timeout:g} s after {script!r}")

    def unexpected_end(self) -> str:
        """Return how the program has ended by itself; empty if it runs, or was not started."""
        ended = self._begun and not self.program.runs and not self.program.told_to_end
        return self.program.end if ended else ""

    def check_runs(self) -> None:
        """Raise Failed if the program has ended by itself."""
        if end := self.unexpected_end():
            raise Failed(f"the program ended meanwhile: {end}")

    def _check_able(self) -> None:
        if self._unable:
            raise NotServing(self.SUBJECT, self._unable)

    def silence(self, call: str, seconds: float) -> str:
        """Return the sentence for a call that did not come."""
        return f"no {call} came" + (f" within {seconds:g} s" if self.program.runs else f": {self.program.end}")

    def show(self, *exchanges: Exchange | None) -> None:
        """Add exchanges of before to the evidence of the current script."""
        for exchange in exchanges:
            if exchange is not None:
                self.recorder.add(exchange)

    def soil(self) -> None:
        """Let the next script begin with a new process and a new kubelet."""
        self._begun = False

    async def end(self) -> None:
        await self.program.kill()
        self._begun = False


class ProgramStage(Running, ABC, Generic[P, R]):
    """A program that registers with a kubelet."""

    CALL: ClassVar[str]
    """The call, or what else comes, by which it registers."""

    def __init__(self, kubelet: PlayedKubelet[P, R], launcher: Launcher, timeout: float) -> None:
        super().__init__(launcher, timeout)
        self.played = kubelet
        self.changes, self.recorder = kubelet.changes, kubelet.recorder
        self.names: set[str] = set()
        """Names that the program has registered, once it serves."""
        self.history: list[dict[str, list[str]]] = []
        """Devices by name, for each time that the program served anew."""
        self._served: list[P] = []
        self._first: R | None = None

    @abstractmethod
    async def ready(self, peer: P) -> list[str]:
        """Return the devices of a peer, once it has reported them. Raises Failed."""

    async def first_attempt(self) -> R:
        """Return the first registration. Raises NotServing if none came."""
        if self._first is None:
            self._check_able()
            await self._begin()
            if not await self.until(lambda: bool(self.played.attempts), self.timeout * START_FACTOR):
                self._unable = self.silence(self.CALL, self.timeout * START_FACTOR)
                self._check_able()
            self._first = self.played.attempts[0]
        self.show(*self._first.exchanges)
        return self._first

    async def peers(self) -> list[P]:
        """Return the connection of each name, when it is ready. Raises NotServing."""
        self._check_able()
        if self.history and self._begun and self.program.runs:
            with suppress(Failed):
                return await self.serve()
        try:
            if self.history or not self._begun:
                await self._begin()
            return await self.serve_started()
        except Failed as error:
            self._unable = "" if self.history else str(error)
            raise NotServing(self.SUBJECT, str(error)) from None

    async def serve(self, seconds: float | None = None) -> list[P]:
        """Wait until all names are registered and ready; return their connections. Raises Failed."""
        seconds = self.timeout if seconds is None else seconds
        if not await self.until(self._is_registered, seconds):
            raise Failed(self._why_not(seconds))
        if not self.names:
            self.started_in = self.played.attempts[0].at - self._started
            await self._settle()
        if gone := self.names - self.played.serving.keys():
            raise Failed(f"{min(gone)} was registered, and its socket is gone")
        peers = [self.played.serving[name] for name in sorted(self.names)]
        devices = {peer.name: await self.ready(peer) for peer in peers}
        if peers != self._served:
            self._served = peers
            self.history.append(devices)
        return peers

    def _is_registered(self) -> bool:
        serving = self.played.serving
        return self.names <= serving.keys() if self.names else bool(serving)

    async def _settle(self) -> None:
        while not self.played.serving.keys() <= self.names:
            self.names |= self.played.serving.keys()
            await asyncio.sleep(SETTLE_S)

    async def _begin(self) -> None:
        """Start kubelet and program from nothing."""
        await self.end()
        await self.played.start()
        await self.start_program()

    async def restart_program(self) -> None:
        """SIGKILL, and start again beside the same kubelet. Raises NotApplicable."""
        if reason := self.launcher.excluded("", "restarts"):
            raise NotApplicable(reason)
        await self.program.kill()
        await self.played.forget()
        await self.start_program()

    async def serve_started(self) -> list[P]:
        """Wait as `serve`, as long as a start may take."""
        return await self.serve(self.timeout * START_FACTOR)

    async def served(self, name: str, *, started: bool) -> P:
        """Wait as `serve`, or `serve_started`; return the connection of one name. Raises Failed."""
        peers = await (self.serve_started() if started else self.serve())
        return next(peer for peer in peers if peer.name == name)

    def _why_not(self, seconds: float) -> str:
        faults = [attempt.fault for attempt in self.played.attempts if attempt.fault]
        if faults and faults[-1] == REJECTED:
            return f"{self.CALL} was rejected, as by a kubelet that starts, and did not come again within {seconds:g} s"
        if faults:
            return f"{self.CALL} was rejected: {faults[-1]}"
        missing = ", ".join(sorted(self.names - self.played.serving.keys()))
        return self.silence(f"{self.CALL} of {missing}" if missing else self.CALL, seconds)

    async def restart_kubelet(self, away: float = 0.0) -> None:
        """Stop kubelet, wait, and start it anew."""
        await self.played.stop()
        await asyncio.sleep(away)
        await self.played.start()

    async def restart_rejecting(self, until: Callable[[], Awaitable[None]] | None = None) -> None:
        """Restart kubelet, which then rejects one registration of each name, or all meanwhile.

        Raises Failed, NotApplicable.
        """
        await self.played.stop()
        self.played.rejecting = MAX_ATTEMPTS if until else len(self.names)
        await self.played.start()
        try:
            if until:
                await until()
                self.played.rejecting = 0
            await self.returns()
        except Failed:
            if self.played.attempts and not self.program.runs:
                raise NotApplicable(f"it ends after the error: {self.program.end}") from None
            raise
        finally:
            self.played.rejecting = 0

    async def returns(self) -> tuple[list[P], float]:
        """Wait until the program serves the new kubelet; return its peers and the seconds that took. Raises Failed."""
        began = time.monotonic()
        return await self.serve(), time.monotonic() - began

    async def end(self) -> None:
        await super().end()
        await self.played.stop()

"""`@pytest.mark.conform`: the behaviours that `nodeplane conform` judges, each as a test of its own."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from supervisor.base.errors import UsageError
from supervisor.cli.operate.judging import JudgedProgram, stage_of
from supervisor.conform.profiles import PROFILES
from supervisor.conform.program_stage import Running
from supervisor.conform.report.text import failure_lines
from supervisor.conform.runner import judge
from supervisor.conform.scripts import KINDS, PLUGIN, Behaviour, behaviours
from supervisor.conform.verdict import FAIL, NOT_APPLICABLE, Result

T = TypeVar("T")
TIMEOUT_S = 10.0


class NotConforming(AssertionError):
    """Raised when the program breaks the behaviour's rule; the text is that of `nodeplane conform`."""


class Options(NamedTuple):
    """What the mark says: flags of `nodeplane conform` of these names."""

    kind: str = PLUGIN.name
    only: Sequence[str] = ()
    behaviours: Sequence[str] = ()
    """Folders with further behaviours, below the project's root."""
    timeout: float = TIMEOUT_S
    profile: str = ""

    def chosen(self, root: Path) -> list[Behaviour]:
        """Raises pytest.UsageError."""
        if self.kind not in KINDS:
            raise pytest.UsageError(f"mark conform: kind is {self.kind!r}; use one of {', '.join(KINDS)}")
        if self.profile and self.profile not in PROFILES:
            raise pytest.UsageError(f"mark conform: profile is {self.profile!r}; use one of {', '.join(PROFILES)}")
        try:
            available = behaviours((root / folder for folder in self.behaviours), KINDS[self.kind])
        except UsageError as error:
            raise pytest.UsageError(f"mark conform: {error}") from None
        if unknown := set(self.only) - {behaviour.name for behaviour in available}:
            raise pytest.UsageError(
                f"mark conform: no behaviour is called {min(unknown)!r}; nodeplane conform --list shows them"
            )
        return [behaviour for behaviour in available if not self.only or behaviour.name in self.only]


def options_of(mark: pytest.Mark) -> Options:
    """Raises pytest.UsageError."""
    try:
        return Options(*mark.args, **mark.kwargs)
    except TypeError as error:
        raise pytest.UsageError(f"mark conform: {error}") from None


def parametrize(metafunc: pytest.Metafunc, mark: pytest.Mark) -> None:
    """Make an item of each behaviour; a wrong mark is an error of the collection, in one line."""
    try:
        if "conform" not in metafunc.fixturenames:
            raise pytest.UsageError(f"{metafunc.function.__name__} has the mark conform: call its fixture, conform")
        options = options_of(mark)
        chosen = options.chosen(metafunc.config.rootpath)
    except pytest.UsageError as error:
        pytest.fail(str(error), pytrace=False)
    metafunc.parametrize(
        "conform", [(options, behaviour) for behaviour in chosen], indirect=True, ids=[e.name for e in chosen]
    )


class Stages:
    """The program that is judged, with what is played for it: items of one program share it, as the command does."""

    def __init__(self) -> None:
        self._subject: JudgedProgram | None = None
        self._stage: Running | None = None
        self._stack = ExitStack()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="conform", daemon=True)
        self._thread.start()

    def judge(self, subject: JudgedProgram, behaviour: Behaviour, shells: Sequence[str]) -> Result:
        if self._stage is None or subject != self._subject:
            self._end()
            self._stage, self._subject = self._stack.enter_context(stage_of(subject)), subject
        self._stage.break_with, self._stage.mend_with, self._stage.shows_with = shells
        return self._run(judge(self._stage, behaviour))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run in the loop, which goes on between two items: the program calls and is answered."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end(self) -> None:
        try:
            if self._stage:
                self._run(self._stage.end())
        finally:
            self._stage = None
            self._stack.close()

    def close(self) -> None:
        self._end()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Conform:
    """Judges the behaviour of one item."""

    def __init__(self, stages: Stages, options: Options, behaviour: Behaviour) -> None:
        self._stages, self._options, self.behaviour = stages, options, behaviour

    def __call__(
        self,
        *command: str,
        manifest: str = "",
        image: str = "",
        runtime: str = "",
        kubelet_dir: str = "",
        break_with: str = "",
        mend_with: str = "",
        shows_with: str = "",
    ) -> None:
        """Judge the program that a command, or the DaemonSet of a manifest, starts.

        The test is skipped if the behaviour does not apply, with the reason. Raises NotConforming.
        """
        if bool(command) == bool(manifest):
            raise UsageError("conform judges one program: a command, or a manifest=FILE")
        subject = JudgedProgram(
            kind=KINDS[self._options.kind],
            timeout=self._options.timeout,
            words=command,
            manifest=manifest,
            image=image,
            runtime=runtime,
            kubelet_dir=kubelet_dir,
            profile=self._options.profile,
        )
        result = self._stages.judge(subject, self.behaviour, (break_with, mend_with, shows_with))
        if result.verdict == FAIL:
            raise NotConforming("\n".join((f"{result.name}: {result.reason}", *failure_lines(result))))
        if result.verdict == NOT_APPLICABLE:
            pytest.skip(f"not applicable: {result.reason}")

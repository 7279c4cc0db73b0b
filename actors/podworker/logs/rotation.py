"""Rotate the logs of running containers, as kubelet does: rename, then ask the runtime to reopen the log."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from actors.podworker.logs import files
from actors.podworker.model.dependencies import Runtime
from protocols.bus import BusError

SELDOM = 6
"""A log that does not grow is checked in each sixth pass: a sudden burst is found within a minute."""
CHECK_S = 10.0
_LOG = logging.getLogger("podworker")


class RotationSchedule:
    """Decides which logs each pass checks: those that do not grow are checked less often. Pure."""

    def __init__(self) -> None:
        self._passes = 0
        self._known: dict[str, tuple[int, int, int]] = {}
        """By container id: last size, passes in a row without growth, number of the next pass."""
        self._next = 0
        """No log is due before this pass, unless it is new."""

    def skip_pass(self) -> bool:
        """Begin a pass over unchanged containers and return True if no log is due in it."""
        if self._passes + 1 >= self._next:
            return False
        self._passes += 1
        return True

    def due(self, logs: Mapping[str, object]) -> list[str]:
        """Begin a pass and return the due ids. Ids that are not in `logs` are forgotten."""
        self._passes += 1
        if self._known.keys() != logs.keys():
            self._known = {id: self._known.get(id, (-1, 0, 0)) for id in logs}
        elif self._passes < self._next:
            return []
        ids = [id for id, (_, _, at) in self._known.items() if at <= self._passes]
        self._next = min((at for _, _, at in self._known.values() if at > self._passes), default=self._passes + SELDOM)
        return ids

    def found(self, id: str, size: int) -> None:
        before, quiet, _ = self._known[id]
        quiet = quiet + 1 if size == before else 0
        self._at(id, size, quiet, self._passes + (SELDOM if quiet else 1))

    def again(self, id: str) -> None:
        """Make the log due in the next pass, too."""
        self._at(id, self._known[id][0], 0, self._passes + 1)

    def _at(self, id: str, size: int, quiet: int, check: int) -> None:
        self._known[id] = (size, quiet, check)
        self._next = min(self._next, check)


class RotationOptions(msgspec.Struct, frozen=True):
    """Limits of the logs of one container run."""

    most_bytes: int
    """Size above which a log is rotated."""
    most_files: int
    """Files per container run including the current log; at least 2."""


class LogRotator:
    """`running` returns id and log path of every running container; it is called only after `changed`."""

    def __init__(
        self, options: RotationOptions, runtime: Runtime, running: Callable[[], Iterable[tuple[str, str]]]
    ) -> None:
        self._options = options
        self._runtime = runtime
        self._running = running
        self._schedule = RotationSchedule()
        self._runs: dict[str, str] = {}
        self._changed = True
        self._seen: set[str] = set()
        """Containers of earlier passes."""
        self._exist: set[str] = set()
        """Containers whose log has existed since it was opened last."""

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CHECK_S)
            await self.check()

    def changed(self) -> None:
        """Read the running containers again in the next pass."""
        self._changed = True

    async def check(self) -> None:
        if not self._changed and self._schedule.skip_pass():
            return
        if self._changed:
            self._changed = False
            self._runs = {id: path for id, path in self._running() if path}
        runs = self._runs
        large, missing = await asyncio.to_thread(self._find, runs)
        for id in missing:
            await self._reopen(id)
        for id in large:
            await self._rotate(id, Path(runs[id]))

    def _find(self, runs: dict[str, str]) -> tuple[list[str], list[str]]:
        """Return the containers whose log is too large, and those whose log is missing."""
        self._exist &= runs.keys()
        sizes = {id: files.size_of(runs[id]) for id in self._schedule.due(runs)}
        missing = [id for id, size in sizes.items() if size < 0 and self._is_expected(id, runs[id])]
        large = [id for id, size in sizes.items() if size > self._options.most_bytes]
        for id, size in sizes.items():
            self._schedule.found(id, size)
        for id in large:
            self._schedule.again(id)
        self._exist.update(missing, (id for id, size in sizes.items() if size >= 0))
        self._seen = set(runs)
        return large, missing

    def _is_expected(self, id: str, path: str) -> bool:
        """Return True if somebody removed the log, or this process was killed between rename and reopen.

        A container of a simulated runtime writes none.
        """
        return id in self._exist or (id not in self._seen and bool(files.pieces(Path(path))))

    async def _rotate(self, id: str, log: Path) -> None:
        try:
            await asyncio.to_thread(files.make_room, log, self._options.most_files - 2)
            piece = await asyncio.to_thread(files.set_aside, log)
        except OSError as error:
            _LOG.warning("log not rotated path=%s error=%s", log, error.strerror)
            return
        if not await self._reopen(id):
            await asyncio.to_thread(files.put_back, log, piece)

    async def _reopen(self, id: str) -> bool:
        try:
            await self._runtime.reopen_log(id)
        except BusError as error:
            _LOG.info("log not reopened container=%s error=%s", id[:12], error)
            return False
        self._exist.discard(id)
        return True

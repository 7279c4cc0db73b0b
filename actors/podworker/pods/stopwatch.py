"""Times of one pod, for the meter. Nothing is counted of pods that ran before this process did."""

import time

from actors.podworker.pods.meter import Meter
from actors.podworker.types import Object, Stage

_KINDS = {Stage.TERMINATING: "terminating", Stage.TERMINATED: "terminated"}


class Stopwatch:
    def __init__(self, meter: Meter | None, phase: str) -> None:
        self._meter = meter
        self._seen = time.monotonic()
        self._looks = 0
        self._fresh = phase in ("", "Pending")
        self._begun = 0.0
        self._updated = False
        self._rejected = False

    def updated(self) -> None:
        """The API had a newer object."""
        self._updated = True

    def rejected(self, reason: str) -> None:
        """Counted once, however often the pod is looked at afterwards."""
        if self._meter is not None and not self._rejected:
            self._rejected = True
            self._meter.rejected(reason)

    def begin(self) -> None:
        self._begun = time.monotonic()
        if self._meter is not None and self._looks == 0 and self._fresh:
            self._meter.worker_start.observe(self._begun - self._seen)

    def end(self, stage: Stage, shown: Object) -> None:
        """`stage` is the one the look began in."""
        if self._meter is None:
            return
        first = "create" if self._looks == 0 and self._fresh else "update" if self._updated else "sync"
        self._meter.work.labels(_KINDS.get(stage, first)).observe(time.monotonic() - self._begun)
        self._looks += 1
        self._updated = False
        if self._fresh and shown.get("phase") not in (None, "Pending"):
            self._fresh = False
            self._meter.start.observe(time.monotonic() - self._seen)

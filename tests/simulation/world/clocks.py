"""Every clock that Python reads is that of the process whose code runs: the module `time`, and `datetime.now`."""

import datetime
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.world.ordered import OURS
from tests.simulation.world.patching import patch, substitute

if TYPE_CHECKING:
    from tests.simulation.world.world import World

EPOCH_S = 1_800_000_000
"""Wall clock at the world's time 0."""


def set_clocks(world: "World") -> None:
    def monotonic() -> float:
        current = world.current
        return world.now + current.clock.boot if current else world.now

    def wall() -> float:
        current = world.current
        return EPOCH_S + (current.clock.wall_time(world.now) if current else world.now)

    def monotonic_ns() -> int:
        return int(monotonic() * 1e9)

    def wall_ns() -> int:
        return int((wall() - EPOCH_S) * 1e9) + EPOCH_S * 10**9

    for name in ("monotonic", "perf_counter", "process_time", "thread_time"):
        substitute(patch(time, name, monotonic), monotonic)
        patch(time, f"{name}_ns", monotonic_ns)
    substitute(patch(time, "time", wall), wall)
    patch(time, "time_ns", wall_ns)
    patch(time, "clock_gettime", lambda clock: wall() if clock == time.CLOCK_REALTIME else monotonic())
    patch(time, "clock_gettime_ns", lambda clock: wall_ns() if clock == time.CLOCK_REALTIME else monotonic_ns())
    _calendars(wall)
    _datetimes()


def _calendars(wall: Callable[[], float]) -> None:
    """Functions that read the wall clock where they are given no time."""

    def now() -> time.struct_time:
        return gmtime(wall())

    def seconds_or_now(real: Callable[[float], Any]) -> Callable[..., Any]:
        return lambda seconds=None: real(wall() if seconds is None else seconds)

    gmtime, strftime, asctime = time.gmtime, time.strftime, time.asctime
    for name in ("gmtime", "localtime", "ctime"):
        patch(time, name, seconds_or_now(getattr(time, name)))
    patch(time, "strftime", lambda form, moment=None: strftime(form, moment or now()))
    patch(time, "asctime", lambda moment=None: asctime(moment or now()))


class _Kind(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _REAL_DATETIME)


_REAL_DATETIME = datetime.datetime


class _Datetime(datetime.datetime, metaclass=_Kind):
    """Knows the time of the process."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        return _REAL_DATETIME.fromtimestamp(time.time(), tz)


def _datetimes() -> None:
    for name, module in list(sys.modules.items()):
        if name.startswith(OURS) and vars(module).get("datetime") is _REAL_DATETIME:
            patch(module, "datetime", _Datetime)
    patch(datetime, "datetime", _Datetime)

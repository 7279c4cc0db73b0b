"""How soon the next tick is due: seldom where nothing moves, since each wakes all who follow. Pure."""

import msgspec

CALM_AFTER = 5
"""Ticks in a row with nothing new before they become seldom: starts and bursts are told of at the usual pace."""
SLACK = 1.1


class Tempo:
    def __init__(self, tick: float, idle_tick: float) -> None:
        self._tick = tick
        self._idle_tick = max(tick, idle_tick)
        self._seen = 0
        self._calm = 0

    @property
    def idle(self) -> bool:
        return self._calm >= CALM_AFTER

    def next(self, pulse: "Pulse") -> float:
        """Seconds to the next tick, which is due at a multiple of them."""
        restless = pulse.moved != self._seen or pulse.waiting or pulse.silence > self._idle_tick * SLACK
        self._seen = pulse.moved
        self._calm = 0 if restless else self._calm + 1
        return self._idle_tick if self.idle else self._tick


class Pulse(msgspec.Struct, frozen=True):
    """What is looked at with each tick."""

    moved: int
    """Grows with each position of the streams owned and each change of what the beats say."""
    waiting: bool
    """A call waits for an answer: its callee is pinged once a tick."""
    silence: float
    """Seconds since the owner that was heard the longest ago told a position; one that is late is looked for soon."""

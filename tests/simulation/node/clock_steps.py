"""A machine whose clock is corrected now and then, as by a time service: it steps forth and back again."""

from typing import TYPE_CHECKING

from tests.simulation.world.process import Clock

if TYPE_CHECKING:
    from tests.simulation.world.world import World

PAUSE_S = 1.0
"""Seconds between two steps, on average."""


class ClockSteps:
    """Steps of milliseconds to seconds: a step back lands between two observations, as those of minutes do not."""

    def __init__(self, world: "World", clock: Clock) -> None:
        self._world, self._clock, self._chance = world, clock, world.random("clock steps")
        self._most = world.draw("clock_steps_s", 2.0, 0.0, 0.0)
        self._ahead = 0.0

    def begin(self) -> None:
        if self._most:
            self._world.at(self._chance.expovariate(1 / PAUSE_S), None, self._step)

    def end(self) -> None:
        self._most = 0.0

    def _step(self) -> None:
        step = -self._ahead or self._most * self._chance.random() ** 2
        self._clock.wall += step
        self._ahead = step if not self._ahead else 0.0
        self.begin()

"""Alarms of many watches: each rings once, and cancelled ones leave nothing behind."""

import asyncio

from actors.apiserver.watch.timers import FEW, Alarms


class AlarmTarget:
    def __init__(self) -> None:
        self.woken = asyncio.Event()

    def alarm(self) -> None:
        assert not self.woken.is_set()
        self.woken.set()


async def test_alarms_of_a_storm_of_watches_leave_no_slots_behind() -> None:
    alarms, sleepers = Alarms(), [AlarmTarget() for _ in range(5000)]
    now = asyncio.get_running_loop().time()
    slots = [alarms.set(sleeper, now + 1000 + number) for number, sleeper in enumerate(sleepers)]
    for sleeper, slot in zip(sleepers, slots, strict=True):
        alarms.cancel(sleeper, slot)
    assert len(alarms._order) <= FEW
    assert len(alarms._ordered) <= FEW


async def test_alarm_that_stays_when_others_are_cancelled_rings_in_its_time() -> None:
    alarms, stays, others = Alarms(), AlarmTarget(), [AlarmTarget() for _ in range(500)]
    loop = asyncio.get_running_loop()
    first = loop.time() + 0.02
    slots = [alarms.set(other, first + number) for number, other in enumerate(others)]
    alarms.set(stays, first + 0.5)
    for other, slot in zip(others, slots, strict=True):
        alarms.cancel(other, slot)
    async with asyncio.timeout(30):
        await stays.woken.wait()
    assert loop.time() >= first + 0.5
    assert not any(other.woken.is_set() for other in others)

"""The publisher: the first change is published at once, a burst once per pod, and every lifecycle event."""

import asyncio
import logging
from typing import Any

import pytest

from actors.pleg.shell.publisher import MAX_DELAYED, PodPublisher
from actors.pleg.state_machine.lifecycle_events import Source
from actors.pleg.state_machine.mode import Mode
from actors.pleg.state_machine.status_merger import StatusChange
from protocols.bus import Op
from protocols.messages.pleg import PodLifecycleEvent, PodStatus


class Told:
    """A stream that keeps what was published."""

    def __init__(self) -> None:
        self.events: list[tuple[Op, str, Any]] = []

    def publish(self, op: Op, key: str, value: Any, mark: int = 0) -> None:
        self.events.append((op, key, value))


def change(uid: str, name: str, gone: bool = False) -> StatusChange:
    status = None if gone else PodStatus(uid=uid, name=name)
    return StatusChange(uid, status, [PodLifecycleEvent(uid, "ContainerStarted", name)], {}, {}, 0)


async def burst(changes: list[StatusChange]) -> tuple[list[str], list[str], dict[str, PodStatus], int]:
    published: dict[str, PodStatus] = {}
    statuses, lifecycle = Told(), Told()
    outbox = PodPublisher(published, statuses, lifecycle)  # type: ignore[arg-type]  # what is used of a stream
    for item in changes:
        outbox.put(item, Source.RELIST, Mode.EVENTED)
    at_once = len(statuses.events)
    await asyncio.sleep(0)
    names = [value.name if op is Op.UPSERT else "gone" for op, _, value in statuses.events]
    return names, [value.id for _, _, value in lifecycle.events], published, at_once


async def test_publisher_one_change_is_sent_at_once() -> None:
    names, events, published, at_once = await burst([change("u", "1")])
    assert (names, events, at_once) == (["1"], ["1"], 1)
    assert published["u"].name == "1"


async def test_lifecycle_event_is_logged_with_source_and_mode(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, logger="pleg"):
        await burst([change("u", "1")])
    assert caplog.messages == ["PodLifecycleEvent source=relist mode=evented pod_uid=u type=ContainerStarted id=1"]


async def test_publisher_burst_sends_newest_status_and_all_events() -> None:
    names, events, published, at_once = await burst([change("u", str(number)) for number in range(9)])
    assert names == ["0", "8"]
    assert events == [str(number) for number in range(9)]
    assert at_once == 1
    assert published["u"].name == "8"


async def test_publisher_pod_gone_at_once_is_not_published() -> None:
    names, events, published, _ = await burst([change("a", "a"), change("u", "1"), change("u", "2", gone=True)])
    assert names == ["a"]
    assert events == ["a", "1", "2"]
    assert list(published) == ["a"]


async def test_publisher_burst_is_bounded() -> None:
    _, events, _, at_once = await burst([change(str(number), "x") for number in range(3 * MAX_DELAYED)])
    assert at_once > 2 * MAX_DELAYED
    assert len(events) == 3 * MAX_DELAYED

"""Numbers of events, and what their gaps say."""

from hypothesis import given
from hypothesis import strategies as st

from actors.pleg.state_machine.missed_events import LostEvents
from protocols.messages.cri import EventNumber
from protocols.wire import cri_pb2 as cri
from protocols.wire.event_numbers import number_field, number_of

NUMBERS = st.integers(0, 2**64 - 1)


@given(NUMBERS, NUMBERS)
def test_event_number_appended_is_read_back(incarnation: int, number: int) -> None:
    sent = cri.ContainerEventResponse(container_id="c", created_at=5)
    position = EventNumber(incarnation, number)
    read = cri.ContainerEventResponse.FromString(sent.SerializeToString() + number_field(position))
    assert (number_of(read), read.container_id, read.created_at) == (position, "c", 5)


def test_event_number_of_other_runtime_is_none() -> None:
    assert number_of(cri.ContainerEventResponse(container_id="c")) is None


@given(st.lists(st.lists(st.booleans(), max_size=20), min_size=1, max_size=4))
def test_lost_and_received_are_all_emitted(incarnations: list[list[bool]]) -> None:
    """Whatever arrives of each run of a runtime, after a first and before a last event that do."""
    lost, received, emitted = LostEvents(), 0, 0
    for incarnation, arrives in enumerate([[True], *incarnations, [True]]):
        tail = len(arrives)
        while tail and not arrives[tail - 1]:
            tail -= 1  # after the last one that arrives a run may end unheard: nothing tells of it
        emitted += tail
        for number, arrived in enumerate(arrives[:tail], start=1):
            if arrived:
                lost.received(EventNumber(incarnation, number))
                received += 1
    assert received + lost.count == emitted


def test_lost_late_event_is_taken_back() -> None:
    lost = LostEvents()
    for number in (1, 4, 4, 3, 2, 5, 5):
        lost.received(EventNumber(7, number))
    assert lost.count == 0


def test_lost_newest_event_is_counted_from_the_runtimes_number() -> None:
    """No event follows the last STOPPED of a quiet node."""
    lost = LostEvents()
    assert not lost.missing(EventNumber(7, 3)), "events before the first report had no listener"
    lost.received(EventNumber(7, 4))
    assert not lost.missing(EventNumber(7, 4))
    assert lost.missing(EventNumber(7, 6))
    assert lost.count == 2
    assert not lost.missing(EventNumber(7, 6)), "counted once"
    assert lost.missing(EventNumber(8, 1)), "a restarted runtime begins anew"
    assert lost.count == 3


def test_lost_events_before_one_are_reported_by_it() -> None:
    lost = LostEvents()
    assert [lost.received(EventNumber(7, number)) for number in (5, 6, 8, 7, 9)] == [False, False, True, False, False]


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_lost_and_received_are_all_emitted_at_each_report(steps: list[tuple[bool, bool]]) -> None:
    """Some of the events arrive, and the number is reported after some, until the last one."""
    lost, received = LostEvents(), 0
    lost.missing(EventNumber(7, 0))
    for number, (arrives, reported) in enumerate(steps, start=1):
        if arrives:
            lost.received(EventNumber(7, number))
            received += 1
        if reported:
            lost.missing(EventNumber(7, number))
            assert received + lost.count == number


@given(st.integers(1, 5))
def test_reported_events_that_arrive_late_are_not_lost(late: int) -> None:
    """As of a relay that was held up for longer than an event takes."""
    lost = LostEvents()
    lost.received(EventNumber(7, 1))
    assert lost.missing(EventNumber(7, 1 + late))
    assert lost.count == late
    for number in range(2, 2 + late):
        assert not lost.received(EventNumber(7, number))
    assert lost.count == 0
    assert lost.received(EventNumber(7, 3 + late))
    assert lost.count == 1

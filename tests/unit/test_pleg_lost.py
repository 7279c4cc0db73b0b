"""Numbers of events, and what their gaps say."""

from hypothesis import given
from hypothesis import strategies as st

from actors.pleg.state_machine.missed_events import LostEvents
from protocols.wire import cri_pb2 as cri
from protocols.wire.event_numbers import EventNumber, number_field, number_of

NUMBERS = st.integers(0, 2**64 - 1)


@given(NUMBERS, NUMBERS)
def test_number_of_a_numbered_event_is_what_was_appended(incarnation: int, number: int) -> None:
    sent = cri.ContainerEventResponse(container_id="c", created_at=5)
    position = EventNumber(incarnation, number)
    read = cri.ContainerEventResponse.FromString(sent.SerializeToString() + number_field(position))
    assert (number_of(read), read.container_id, read.created_at) == (position, "c", 5)


def test_number_of_another_runtimes_event_is_none() -> None:
    assert number_of(cri.ContainerEventResponse(container_id="c")) is None


@given(st.lists(st.lists(st.booleans(), max_size=20), min_size=1, max_size=4))
def test_received_and_lost_are_all_that_was_emitted(incarnations: list[list[bool]]) -> None:
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


def test_a_late_event_is_not_lost_and_a_repeated_one_changes_nothing() -> None:
    lost = LostEvents()
    for number in (1, 4, 4, 3, 2, 5, 5):
        lost.received(EventNumber(7, number))
    assert lost.count == 0

"""What mode pleg says is in use."""

import time

from actors.pleg.service.mode_selector import LISTING, Stance, StanceOptions
from protocols.messages.cri import RuntimeState
from protocols.messages.pleg import PlegState

STREAMING = RuntimeState(connected=True, streaming=True, events_supported=True)


def test_evented_is_told_from_when_events_are_believed() -> None:
    told: list[PlegState] = []
    trusted = [False]
    stance = Stance(
        StanceOptions(
            mode="auto",
            gate=True,
            last_started=time.monotonic,
            on_period=lambda: None,
            on_state=told.append,
            believes=lambda: trusted[0],
        )
    )
    stance.tell()
    stance.on_runtime(STREAMING)
    assert [state.mode for state in told] == ["generic", "generic"]
    assert told[-1].why == LISTING
    assert stance.plan.period_s > 100, "that one list is asked for, so no others are"
    trusted[0] = True
    stance.on_relist()
    assert told[-1].mode == "evented"
    trusted[0] = False
    stance.tell()
    assert (told[-1].mode, told[-1].why) == ("generic", LISTING)
    stance.on_runtime(RuntimeState(connected=True, events_supported=True))
    assert told[-1].why == "no event stream yet"

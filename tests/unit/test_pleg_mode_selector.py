"""The PLEG mode and its publication."""

import time

from actors.pleg.service.mode_selector import WAITING_FOR_RELIST, ModeSelector, ModeSelectorOptions
from protocols.messages.cri import RuntimeState
from protocols.messages.pleg import PlegState

STREAMING = RuntimeState(connected=True, streaming=True, events_supported=True)


def test_mode_is_evented_once_events_are_trusted() -> None:
    published: list[PlegState] = []
    trusted = [False]
    selector = ModeSelector(
        ModeSelectorOptions(
            mode="auto",
            gate=True,
            last_started=time.monotonic,
            on_period=lambda: None,
            on_state=published.append,
            trusted=lambda: trusted[0],
        )
    )
    selector.publish()
    selector.on_runtime(STREAMING)
    assert [state.mode for state in published] == ["generic", "generic"]
    assert published[-1].why == WAITING_FOR_RELIST
    assert selector.plan.period_s > 100, "that one list is asked for, so no others are"
    trusted[0] = True
    selector.on_relist()
    assert published[-1].mode == "evented"
    trusted[0] = False
    selector.publish()
    assert (published[-1].mode, published[-1].why) == ("generic", WAITING_FOR_RELIST)
    selector.on_runtime(RuntimeState(connected=True, events_supported=True))
    assert published[-1].why == "no event stream yet"

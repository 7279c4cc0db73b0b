"""The PLEG mode and its publication."""

import time

from actors.pleg.shell.mode_selector import WAITING_FOR_RELIST, ModeSelector, ModeSelectorOptions
from actors.pleg.state_machine.status_merger import StatusMerger
from protocols.messages.cri import RuntimeState
from protocols.messages.pleg import PlegState

STREAMING = RuntimeState(connected=True, streaming=True, events_supported=True)


def test_mode_events_trusted_is_evented() -> None:
    published: list[PlegState] = []
    merger = StatusMerger()
    selector = ModeSelector(
        ModeSelectorOptions(
            mode="auto",
            gate=True,
            merger=merger,
            on_state=published.append,
        )
    )
    selector.last_started = time.monotonic()
    selector.publish()
    selector.on_runtime(STREAMING)
    assert [state.mode for state in published] == ["generic", "generic"]
    assert published[-1].why == WAITING_FOR_RELIST
    assert selector.plan.period_s > 100, "that one list is asked for, so no others are"
    merger.trusted = True
    selector.on_relist()
    assert published[-1].mode == "evented"
    merger.trusted = False
    selector.publish()
    assert (published[-1].mode, published[-1].why) == ("generic", WAITING_FOR_RELIST)
    selector.on_runtime(RuntimeState(connected=True, events_supported=True))
    assert published[-1].why == "no event stream yet"

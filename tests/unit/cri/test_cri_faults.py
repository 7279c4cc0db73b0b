"""Faults on purpose: what is heard of the runtime's events under each. Pure."""

import pytest

from actors.cri.fault_injection import MOST_HELD, REORDER_BATCH, FaultUnknown, InjectedFaults, ShiftTooLarge
from protocols.messages.cri import ChaosRuntime
from protocols.wire import cri_pb2

EVENTS = [bytes([n]) for n in range(REORDER_BATCH)]


def heard(fault: str, count: int = 0) -> list[bytes]:
    faults = InjectedFaults()
    faults.set(ChaosRuntime(fault, count))
    passed = [out for event in EVENTS for out in faults.apply(event)]
    return [*passed, b"|", *faults.set(ChaosRuntime("clear"))]


@pytest.mark.parametrize(
    ("fault", "count", "out"),
    [
        ("drop-events", 0, [b"|"]),
        ("drop-events", 2, [*EVENTS[2:], b"|"]),
        ("duplicate-events", 0, [event for event in EVENTS for _ in range(2)] + [b"|"]),
        ("reorder-events", 0, [*EVENTS[::-1], b"|"]),
        ("stall", 0, [b"|", *EVENTS]),
        ("disconnect", 0, [*EVENTS, b"|"]),
        ("clear", 0, [*EVENTS, b"|"]),
    ],
)
def test_fault_any_kind_changes_events(fault: str, count: int, out: list[bytes]) -> None:
    assert heard(fault, count) == out


def test_fault_stall_holds_bounded_events() -> None:
    faults = InjectedFaults()
    faults.set(ChaosRuntime("stall"))
    for n in range(MOST_HELD + 5):
        faults.apply(str(n).encode())
    assert len(faults.flush()) == MOST_HELD


def test_fault_clock_jump_moves_timestamps() -> None:
    faults = InjectedFaults()
    faults.set(ChaosRuntime("clock-jump", seconds=-2.0))
    event = cri_pb2.ContainerEventResponse(container_id="c", created_at=5 * 10**9)
    moved = cri_pb2.ContainerEventResponse.FromString(faults.apply(event.SerializeToString())[0])
    assert moved.created_at == 3 * 10**9
    assert faults.apply(b"\xff\xff") == [b"\xff\xff"]
    unstamped = cri_pb2.PodSandboxStatusResponse().SerializeToString()
    assert faults.shifted_status(unstamped) == unstamped


def test_fault_unknown_is_refused() -> None:
    with pytest.raises(FaultUnknown, match="there are stall"):
        InjectedFaults().set(ChaosRuntime("explode"))


@pytest.mark.parametrize("seconds", [1e10, -1e300, float("inf"), float("nan")])
def test_clock_jump_that_timestamps_cannot_carry_is_refused(seconds: float) -> None:
    faults = InjectedFaults()
    with pytest.raises(ShiftTooLarge, match="use at most"):
        faults.set(ChaosRuntime("clock-jump", seconds=seconds))
    assert faults.apply(EVENTS[0]) == [EVENTS[0]]

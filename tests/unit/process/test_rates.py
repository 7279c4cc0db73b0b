"""Backoff: doubled delays with a maximum."""

from protocols.process.rates import backoff_delay


def test_backoff_delay_doubles_up_to_the_maximum() -> None:
    assert [backoff_delay(failures, 0.5, 3.0) for failures in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_backoff_delay_after_countless_failures_is_the_maximum() -> None:
    assert backoff_delay(10**9, 1e-9, 60.0) == 60.0

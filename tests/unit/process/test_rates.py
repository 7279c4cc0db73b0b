"""Backoff: doubled delays with a maximum; Retry-After that follows rejections."""

from protocols.process.rates import RetryAfter, backoff_delay


def test_backoff_delay_doubles_up_to_the_maximum() -> None:
    assert [backoff_delay(failures, 0.5, 3.0) for failures in range(1, 6)] == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_backoff_delay_after_countless_failures_is_the_maximum() -> None:
    assert backoff_delay(10**9, 1e-9, 60.0) == 60.0


def test_clients_wait_longer_while_a_level_rejects_many() -> None:
    """With 1 s always, client-go, which retries ten times, gave up after 10 s, and all retried at once each second."""
    retries = RetryAfter()
    rejections = [retries.reject(second + part / 3) for second in range(100, 170) for part in range(3)]
    assert sorted(set(rejections)) == [1, 2, 4, 8, 16, 32]
    assert [retries.reject(second) for second in (180, 190, 200, 210, 400)] == [32, 32, 22, 12, 1]

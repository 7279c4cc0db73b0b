"""How long to wait before the event stream is opened again: the table of KEP-3386, literally. Pure."""

SETTLED_S = 30.0
"""A stream that was up this long clears the count of failures; a shorter one does not, so that a runtime which
accepts and breaks at once cannot cause a loop without delay."""

FALLEN_BACK = 5
"""Consecutive failures from which status and metrics say that events are given up for now (retries go on)."""


def retry_delay(failures: int) -> float:
    """Seconds to wait after the n-th consecutive failure: 0, 1, 2, 4, 8, 16, 32, 64, then 60 each time."""
    if failures <= 1:
        return 0.0
    if failures <= 8:
        return float(2 ** (failures - 2))
    return 60.0

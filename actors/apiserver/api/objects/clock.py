"""The time as objects tell it."""

import time
from datetime import UTC, datetime
from functools import lru_cache


def now() -> str:
    return _told(int(time.time()))


@lru_cache(maxsize=2)
def _told(second: int) -> str:
    """Made once a second, however many objects are written in it."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

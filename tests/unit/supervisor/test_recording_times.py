"""Times of a recording as `--at` names them."""

from types import SimpleNamespace
from typing import Any

import pytest

from supervisor.base.errors import UsageError
from supervisor.base.recordings import time_in

RECORDING: Any = SimpleNamespace(begin_ms=1_000_000, end_ms=1_060_000)


def test_time_is_relative_absolute_or_the_end() -> None:
    assert time_in(RECORDING, "+3") == 1_003_000
    assert time_in(RECORDING, "1970-01-01T00:17:00Z") == 1_020_000
    assert time_in(RECORDING, "") == RECORDING.end_ms


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01T00:00:00Z", "+soon", "25:00:00", "noon"])
def test_what_is_no_time_is_a_usage_error_with_the_forms(text: str) -> None:
    with pytest.raises(UsageError, match=f"^--at '{text}' is no time; give HH:MM:SS".replace("+", r"\+")):
        time_in(RECORDING, text)

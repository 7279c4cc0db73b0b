"""Functions of the system that the product's modules bind at import, as defaults of arguments and fields.

Called before they are imported: what they bind then looks up the function of the day at each call.
"""

import random
import time
from typing import Any

NAMES = (
    (time, "time"), (time, "time_ns"), (time, "monotonic"), (time, "monotonic_ns"), (time, "perf_counter"),
    (random, "random"), (random, "uniform"),
)  # fmt: skip


def bind_late() -> None:
    """Once a process, before anything of the product is imported."""
    for owner, name in NAMES:
        setattr(owner, name, _late(owner, name))


def _late(owner: Any, name: str) -> Any:
    real = getattr(owner, name)

    def late(*given: Any) -> Any:
        now = getattr(owner, name)
        return real(*given) if now is late else now(*given)

    return late

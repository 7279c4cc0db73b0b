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

MARK = "binds_late"


def bind_late() -> None:
    """Call it before anything of the product or its libraries is imported; later calls have no effect."""
    for owner, name in NAMES:
        if not hasattr(getattr(owner, name), MARK):
            setattr(owner, name, _late(owner, name))


def _late(owner: Any, name: str) -> Any:
    real = getattr(owner, name)

    def late(*given: Any) -> Any:
        now = getattr(owner, name)
        return real(*given) if now is late else now(*given)

    setattr(late, MARK, True)
    return late

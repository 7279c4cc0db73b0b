"""The numbers behind all chance of tests that roll dice; failures show them.

Unset: the same each time, so that `make test` says of a commit what it said before. 0: others each time. Any other
number: a run again.
"""

import os
import random


def seed_of(variable: str) -> int:
    """From the environment."""
    return int(os.environ.get(variable, "2026")) or random.randrange(1, 10**6)


SEED = seed_of("NODEPLANE_CRASH_SEED")
ROUNDS = int(os.environ.get("NODEPLANE_CRASH_ROUNDS", "1"))
"""How often the long stories are told, each time with other timings."""

"""The one number behind all chance of the crash tests: NODEPLANE_CRASH_SEED, else a new one, which failures show."""

import os
import random

SEED = int(os.environ.get("NODEPLANE_CRASH_SEED", "0")) or random.randrange(1, 10**6)
ROUNDS = int(os.environ.get("NODEPLANE_CRASH_ROUNDS", "1"))
"""How often the long stories are told, each time with other timings."""

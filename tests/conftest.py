"""For every test: no example of a property has a deadline of its own, a machine may be busy; speed is the bench's.

`make test` tries the same examples each time, so that what it says of a commit it says again; NODEPLANE_FUZZ=1 tries
others each time, and more of them. A test names a number of its own only where an example is expensive.
"""

import os

from hypothesis import settings

FUZZ = bool(os.environ.get("NODEPLANE_FUZZ"))
settings.register_profile("nodeplane", deadline=None, derandomize=not FUZZ, max_examples=500 if FUZZ else 60)
settings.load_profile("nodeplane")

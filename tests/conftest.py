"""For every test: no example of a property has a deadline of its own, a machine may be busy; speed is the bench's.

`make test` tries the same examples each time, so that what it says of a commit it says again; NODEPLANE_FUZZ=1 tries
others each time.
"""

import os

from hypothesis import settings

settings.register_profile("nodeplane", deadline=None, derandomize=not os.environ.get("NODEPLANE_FUZZ"))
settings.load_profile("nodeplane")

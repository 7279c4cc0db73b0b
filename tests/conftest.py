"""For every test: no example of a property has a deadline of its own, a machine may be busy; speed is the bench's."""

from hypothesis import settings

settings.register_profile("nodeplane", deadline=None)
settings.load_profile("nodeplane")

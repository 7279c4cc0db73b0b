"""Dynamic resource allocation without I/O: devices as they are published and patched, and who gets which.

Scheduler, controllers, API and command line share it; nothing here knows an API client.
"""

"""Pure rules of the pod lifecycle event generator. Start with status_merger.py.

- cri_status.py: one pod's status from CRI messages
- status_cache.py: statuses by pod, and the time up to which each is known
- status_merger.py: merges relists, inspections and events into the cache
- lifecycle_events.py: events between two views of a pod
- missed_events.py: counts events that should have arrived
- mode.py: generic, hint or evented
"""

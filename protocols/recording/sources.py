"""Names of what is recorded. Those of a further node of the plane begin with `NODE/`.

State also has each followed stream by `OWNER/STREAM`, and each followed resource by its stream `objects/GROUP/PLURAL`.
"""

SUPERVISORS = "supervisors"
"""State: each supervisor by name, as PlaneStatus without `actors`; `began_ms` stands for `uptime_s`."""
ACTORS = "actors"
"""State: each ActorStatus by `SUPERVISOR INSTANCE`; `began_ms` stands for `uptime_s`."""
USAGE = "usage"
"""State: [percent of a CPU, MiB of resident memory, stopped by a signal] by instance."""
PENDING = "pending calls"
"""State: each CallRecord of a call in progress by its number."""
METRICS = "metrics"
"""State: `at_ms` and `samples` (values by text on the page, names as in `samples.py`) by instance; of API processes one
each 30 s, of the others all each 10 s."""
REGISTRATION = "registration"
"""State: `socket`: the time in s since which kubelet.sock exists; absent if it does not."""
LOGS = "container logs"
"""State: the last lines of a container's newest run by `NAMESPACE/POD/UID/CONTAINER`."""

EVENTS = "events"
"""Entries: versions of Events of the API by `NAMESPACE/NAME`."""
SPANS = "spans"
"""Entries: Spans, whose `actor` has the prefix of the node."""
CALLS = "calls"
"""Entries: CallRecords of calls that ended."""
LIFECYCLE = "lifecycle"
"""Entries: PodLifecycleEvents."""
LINES = "lines"
"""Entries: lines of an actor's log by instance."""

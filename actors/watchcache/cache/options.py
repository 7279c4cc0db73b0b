"""What the watch cache is started with."""

import msgspec

from protocols.etcd import EtcdOptions
from protocols.kube.resources import ALL, Resource
from protocols.messages.objects import HISTORY_BYTES, HISTORY_REVISIONS, WINDOW_BYTES


class WindowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Size of one resource's history."""

    least: int = 100
    most: int = 102_400
    fresh: float = 75.0
    """Seconds a change should stay: a full window whose oldest change is younger doubles."""
    max_bytes: int = WINDOW_BYTES
    """Bound of all changes' bytes; beyond it the oldest go, whatever their age."""


class WatchcacheOptions(msgspec.Struct, frozen=True, kw_only=True):
    etcd: EtcdOptions
    resources: tuple[Resource, ...] = ALL
    prefix: bytes = b"/registry/"
    efficient: bool = True
    """The gate EfficientWatchResumption. Off: progress is neither asked for nor believed, a stream's mark moves with
    its own events only, and history begins at the list."""
    resume_revisions: int = HISTORY_REVISIONS
    """At start the windows are filled from this far back, unless compaction is nearer."""
    resume_bytes: int = HISTORY_BYTES
    """At start no further back than objects of so many bytes have changed: windows would not keep more."""
    compare: float = 300.0
    """Seconds between two comparisons of what is cached with what is stored."""
    look_at_alarms: float = 10.0
    """Seconds between two looks at the store's alarms."""
    compaction: float = 0.0
    """Seconds between two compactions of the store; 0 = it is not ours to compact."""
    window: WindowOptions = WindowOptions()
    first_pause: float = 0.01
    longest_pause: float = 1.0
    """Back-off between two attempts to reach the store."""
    quiet: float = 5.0
    """Seconds of silence after which progress is asked for: real etcd tells it by itself each 10 minutes only."""
    dead: float = 20.0
    """Seconds of silence, questions included, after which the stream is given up and opened anew."""
    gather: float = 0.002
    """Seconds that a change which follows another one closely waits for company."""
    gather_crowd: float = 0.008
    """The same, at most, when many come."""
    fresh_timeout: float = 3.0
    """Longest wait of `freshen`."""
    nudge: float = 0.05
    """Seconds between progress requests while someone waits for a revision."""

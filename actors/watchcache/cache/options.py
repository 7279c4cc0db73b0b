"""Options of the watch cache."""

import msgspec

from actors.watchcache.cache.window import WindowOptions
from protocols.etcd.options import EtcdOptions
from protocols.kinds.table import ALL, Resource
from protocols.messages.objects import HISTORY_BYTES, HISTORY_REVISIONS


class WatchcacheOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Store, resources and bounds of one watch cache; times in seconds."""

    etcd: EtcdOptions
    resources: tuple[Resource, ...] = ALL
    prefix: bytes = b"/registry/"
    efficient_resumption: bool = True
    """Feature gate EfficientWatchResumption. Off: progress is neither requested nor used, a stream's mark moves with
    its own events only, and history begins at the list."""
    resume_revisions: int = HISTORY_REVISIONS
    """Revisions read back into the windows at start, unless they are compacted."""
    resume_bytes: int = HISTORY_BYTES
    """Bytes of changed objects read back at start: windows would not retain more."""
    compare_interval: float = 300.0
    """Seconds between two comparisons of the cache with the store."""
    alarm_interval: float = 10.0
    """Seconds between two checks of the store's alarms."""
    compaction_interval: float = 0.0
    """Seconds between two compactions of the store; 0 = the store compacts itself."""
    window: WindowOptions = WindowOptions()
    first_backoff: float = 0.01
    max_backoff: float = 1.0
    """Seconds between two attempts to reach the store, first and longest."""
    quiet_after: float = 5.0
    """Seconds of silence after which progress is requested: real etcd notifies only every 10 minutes by itself."""
    dead_after: float = 20.0
    """Seconds of silence, despite progress requests, after which the watch is closed and opened again."""
    batch_wait: float = 0.002
    """Shortest batching window: seconds for which changes that follow others closely are collected."""
    batch_wait_max: float = 0.008
    """Longest batching window, under load."""
    fresh_timeout: float = 3.0
    """Longest wait of `freshen`."""
    progress_interval: float = 0.05
    """Seconds between progress requests while someone waits for a revision."""

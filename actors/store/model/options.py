"""What one store is started with."""

from pathlib import Path

import msgspec

from actors.store.model.errors import BadOption

MIB = 1024 * 1024


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Every limit of the store, with its meaning at zero where zero is allowed."""

    directory: Path
    """Holds the SQLite file and its WAL; created with mode 0700."""
    socket: Path
    """Unix socket of the etcd API (mode 0600)."""
    address_file: Path
    """Where the TCP address is written, once it is known; absent when only the socket is served."""
    ca: Path
    cert: Path
    key: Path
    """PEM files for mutual TLS on loopback. Any missing: the TCP port is not opened."""
    port: int = 0
    """TCP port on 127.0.0.1; 0 = a free one."""
    sync: str = "full"
    """`full`: fsync before each acknowledgement. `normal`: survives a killed process, not a power cut."""
    max_pages: int = 0
    """Upper bound of the file in SQLite pages of 4 KiB; 0 = none. Beyond it writes fail as on a full disk."""
    quota_bytes: int = 8 * 1024 * MIB
    """Bytes of the file in use beyond which only deletions are done; 0 = none."""
    batch_requests: int = 512
    """Writes committed together at most."""
    pending_requests: int = 8192
    """Writes waiting at most; beyond it they fail with `too many requests`."""
    request_bytes: int = 3 * MIB // 2
    """Largest write request."""
    txn_operations: int = 128
    """Compares, or operations of one branch, in a transaction."""
    progress_interval: float = 1.0
    """Seconds between progress notifications of an idle watch: one message a second for each stream that asked."""
    queue_events: int = 2000
    queue_bytes: int = 8 * MIB
    """What one watch stream may have waiting; past it, it reads on from the log."""
    recent_changes: int = 4096
    recent_bytes: int = 16 * MIB
    """Newest changes kept in memory, so that watches which fall behind a little need not read the file."""
    checkpoint_pages: int = 1000
    """WAL pages after which they are moved into the database file."""
    compact_every: float = 60.0
    history_seconds: float = 600.0
    history_least: int = 20_000
    history_most: int = 100_000
    """History kept: at least `history_seconds` and `history_least` revisions, never more than `history_most`."""
    min_lease_ttl: int = 2

    @property
    def door(self) -> Path:
        """Second socket, for the plane's own processes (protocols/etcd/frames.py)."""
        return self.socket.with_suffix(".door")

    @property
    def file(self) -> Path:
        return self.directory / "objects.sqlite"

    def __post_init__(self) -> None:
        if self.sync not in ("full", "normal"):
            raise BadOption(f"store_sync is {self.sync!r}; it must be full or normal")
        if not 0 <= self.port <= 65535:
            raise BadOption(f"store_port is {self.port}; it must be 0 (a free one) to 65535")

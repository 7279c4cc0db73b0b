"""Options of the store."""

from pathlib import Path

import msgspec

from actors.store.model.errors import BadOption

MIB = 1024 * 1024


class StoreOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Paths and limits of one store. 0 means the default of the field's text where zero is allowed."""

    directory: Path
    """Holds the SQLite file and its WAL; created with mode 0700."""
    socket: Path
    """Unix socket of the etcd API (mode 0600)."""
    address_file: Path
    """File that receives the TCP address; absent when only the socket is served."""
    ca: Path
    cert: Path
    key: Path
    """PEM files for mutual TLS on loopback. If one is missing, the TCP port is not opened."""
    port: int = 0
    """TCP port on 127.0.0.1; 0 = a free one."""
    sync: str = "full"
    """`full`: fsync before each acknowledgement. `normal`: survives a killed process, not a power cut."""
    max_pages: int = 0
    """Largest file in SQLite pages of 4 KiB; 0 = unlimited. Beyond it writes fail as on a full disk."""
    quota_bytes: int = 8 * 1024 * MIB
    """Bytes of the file in use beyond which only deletions are accepted; 0 = unlimited."""
    batch_requests: int = 512
    """Most writes in one commit."""
    batch_bytes: int = MIB
    """Bytes of a commit beyond which large writes wait for the next one."""
    pending_requests: int = 8192
    pending_bytes: int = 64 * MIB
    """Most writes that wait, and bytes of all that are not answered; further ones fail with `too many requests`."""
    request_bytes: int = 3 * MIB // 2
    """Largest write request."""
    txn_operations: int = 128
    """Most compares, or operations of one branch, in a transaction."""
    progress_interval: float = 1.0
    """Seconds between progress notifications of an idle watch: one message a second for each stream that asked."""
    queue_events: int = 2000
    queue_bytes: int = 8 * MIB
    """Queue of one watch stream; a watcher that does not fit continues from the log."""
    recent_changes: int = 4096
    recent_bytes: int = 16 * MIB
    """Newest changes retained in memory, so that watchers slightly behind need not read the file."""
    checkpoint_pages: int = 500
    """WAL pages after which the WAL is copied into the database file."""
    compact_every: float = 60.0
    history_seconds: float = 600.0
    history_min_revisions: int = 20_000
    history_max_revisions: int = 100_000
    """History retained: `history_seconds` and at least the minimum of revisions, never more than the maximum."""
    min_lease_ttl: int = 2

    @property
    def private_socket(self) -> Path:
        """Socket of the private endpoint, for the plane's own processes (protocols/etcd/transport/frames.py)."""
        return self.socket.with_suffix(".door")

    @property
    def port_file(self) -> Path:
        """The TCP port of the last start, so that clients of a store with port 0 find it again."""
        return self.directory / "port"

    @property
    def file(self) -> Path:
        return self.directory / "objects.sqlite"

    def __post_init__(self) -> None:
        if self.sync not in ("full", "normal"):
            raise BadOption(f"store_sync is {self.sync!r}; it must be full or normal")
        if not 0 <= self.port <= 65535:
            raise BadOption(f"store_port is {self.port}; it must be 0 (a free one) to 65535")

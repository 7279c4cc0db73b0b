"""Messages of `watchcache`: every API object, one stream per resource, and the history a watch may resume from."""

from zlib import crc32

import msgspec

OWNER = "watchcache"
FRESHEN = "freshen"
"""RPC Freshen -> Empty: answered once the mark of every stream of that store has reached the revision (or was published
beyond it); it fails with DEADLINE_EXCEEDED after 3 s. Idempotent."""

ADDED, MODIFIED, DELETED, STORED, FLOOR = "ADDED", "MODIFIED", "DELETED", "STORED", "FLOOR"
HISTORY_MARK = "@"
FLOOR_KEY = "@floor"
"""A snapshot holds, in this order: each stored object as (key, STORED); (FLOOR_KEY, FLOOR), whose `rv` is the revision
above which the history has no gap, so a watch may start at it or later; the history, oldest first, as
(f"@{n}/{key}", ADDED | MODIFIED | DELETED). Names of objects never begin with `@`."""
MIB = 1024 * 1024
HISTORY_REVISIONS, HISTORY_BYTES = 20_000, 256 * MIB
"""Bounds of the history that a restarted watch cache reads: revisions, and bytes of the objects changed since."""
WINDOW_BYTES = 64 * MIB
"""Bytes of one resource's changes in a window, objects before and after."""
DIGEST, DIGEST_KEY = "DIGEST", "@digest"
"""The last event of a replay across a restart of the watch cache: `object` is the digest of all objects at that point,
as 8 big-endian bytes. A follower with another digest followed another history and asks for a snapshot."""
DIGESTED_BYTES = 4096
"""Bytes of each object that go into a digest: metadata with uid and timestamps; more would cost milliseconds."""
DIGEST_MASK = (1 << 64) - 1


def stream_of(group: str, resource: str) -> str:
    """Return the stream's name `objects/<group>/<resource>`; the core group is written `core`."""
    return f"objects/{group or 'core'}/{resource}"


def fingerprint(key: str, rv: int, raw: bytes) -> int:
    """Return an object's share of a digest. A digest is the sum of its objects' shares, modulo 2**64."""
    return hash((rv, len(raw), crc32(raw[:DIGESTED_BYTES], crc32(key.encode())))) & DIGEST_MASK


class ObjectEvent(msgspec.Struct, frozen=True, array_like=True):
    """One change, or one stored object in a snapshot. Key on the bus = storage key below the resource prefix."""

    type: str
    """ADDED, MODIFIED, DELETED; in a snapshot also STORED for the current state, and FLOOR (see FLOOR_KEY)."""
    rv: int
    """Revision of this change (for DELETED that of the deletion)."""
    object: bytes
    """JSON as stored; for DELETED the last stored content."""
    previous: bytes = b""
    """JSON before the change, empty for ADDED and STORED."""
    previous_rv: int = 0
    """Revision of `previous`; 0 if it is unknown."""
    more: bool = False
    """True if another change of this revision follows: they are applied together."""


class Freshen(msgspec.Struct, frozen=True):
    """Asks the watch cache to reach a revision of one store soon."""

    revision: int
    store: int = 0
    """Its place in `Settings.stores`."""

"""Spoken by `watchcache`: every API object, one stream per resource, and the history a watch may resume from."""

import msgspec

OWNER = "watchcache"


def stream_of(group: str, resource: str) -> str:
    """Stream name `objects/<group>/<resource>`; the core group is written `core`."""
    return f"objects/{group or 'core'}/{resource}"


class ObjectEvent(msgspec.Struct, frozen=True, array_like=True):
    """One change, or one stored object in a snapshot. Key on the bus = storage key below the resource prefix."""

    type: str
    """ADDED, MODIFIED, DELETED; STORED in a snapshot for the current state."""
    rv: int
    """Revision of this change (for DELETED that of the deletion)."""
    object: bytes
    """JSON as stored; for DELETED the last stored content."""
    previous: bytes = b""
    """JSON before the change, empty for ADDED and STORED."""

"""Times as the API writes them (RFC 3339, whole seconds, UTC). Pure."""

from datetime import UTC, datetime

from actors.podworker.types import SECOND


def rfc3339(ns: int) -> str:
    return datetime.fromtimestamp(ns // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(ns: int) -> str:
    """With microseconds, as leases want it."""
    return datetime.fromtimestamp(ns // SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{ns % SECOND // 1000:06d}Z"

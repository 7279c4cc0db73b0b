"""Estimate the seats of a request: how much of the process it takes while it executes."""

from collections.abc import Mapping

from aiohttp import hdrs, web

from actors.apiserver.api.target import Target
from actors.apiserver.http.fairness.dispatcher import MAX_WIDTH
from actors.apiserver.replica.replica import Replica

OBJECTS_PER_SEAT = 100
"""Objects of a list that make one seat (upstream: 100)."""
BODY_PER_SEAT = 256 * 1024
"""Bytes of a request body that make one more seat."""
WRITES = ("create", "update", "patch")
SHORT_QUERY = 4096
"""Characters of a query that is read for the estimate, which comes before authorization."""
MAX_LIMIT_DIGITS = 9


def width_of(http: web.BaseRequest, target: Target, replicas: Mapping[str, Replica]) -> int:
    """Return the seats of a resource request, 1 to MAX_WIDTH."""
    if target.verb == "list":
        replica = replicas.get(target.resource.store)
        stored = 0 if replica is None else len(replica.objects)
        return list_width(stored, http.query if len(http.rel_url.raw_query_string) <= SHORT_QUERY else {})
    if target.verb in WRITES:
        return body_width(http.headers)
    return 1


def list_width(stored: int, query: Mapping[str, str]) -> int:
    """Return the seats of a list of `stored` objects. A watch that begins with all objects costs as much as a list."""
    if stored <= OBJECTS_PER_SEAT:
        return 1
    if query.get("watch") in ("1", "true") and "sendInitialEvents" not in query:
        return 1
    limit = query.get("limit", "")
    if limit.isdecimal() and len(limit) <= MAX_LIMIT_DIGITS:
        stored = min(stored, int(limit) or stored)
    return max(1, min(MAX_WIDTH, -(-stored // OBJECTS_PER_SEAT)))


def body_width(headers: Mapping[str, str]) -> int:
    """Return the seats of a write; a body without a length counts as the largest."""
    length = headers.get(hdrs.CONTENT_LENGTH)
    if length is None:
        return MAX_WIDTH if hdrs.TRANSFER_ENCODING in headers else 1
    if len(length) <= 5:
        return 1
    return min(MAX_WIDTH, 1 + int(length) // BODY_PER_SEAT) if length.isdecimal() else MAX_WIDTH

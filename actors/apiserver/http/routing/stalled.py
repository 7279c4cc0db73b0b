"""Requests that stopped a process: named while they do, and refused to their user afterwards by every process.

- A request that holds the event loop for seconds is recorded by the loop monitor (protocols/process/stalls.py).
- While a record counts, requests of the same user and shape get 429. A shape is method, resource and subresource; of
  the plane's own users it is the whole path and query, so that one request of theirs stops no other.
- Every process of the port reads the records once a second and before it listens.
"""

import math
import time
from pathlib import Path
from types import FrameType

from aiohttp import web

from actors.apiserver.api.errors import TooManyRequests
from actors.apiserver.api.target import Target
from actors.apiserver.api.user import User
from actors.apiserver.http.routing.call import Call
from actors.apiserver.http.routing.loop_monitor import Cause
from protocols.process import stalls
from protocols.process.stalls import Stall

SHOWN = 256
"""Characters of a user and of a path that are logged."""
OWN = "system:"
ACCOUNT = "system:serviceaccount:"


def shape_of(http: web.BaseRequest, user: User, target: Target | None) -> str:
    """Return the key under which a request of this user is refused."""
    own = user.name.startswith(OWN) and not user.name.startswith(ACCOUNT)
    if target is None or own:
        path = http.rel_url.raw_path_qs if own else http.rel_url.raw_path
        return f"{user.name[:SHOWN]} {http.method} {path[: 4 * SHOWN]}"
    row = target.resource
    return f"{user.name[:SHOWN]} {http.method} {row.full_name}/{target.subresource}"


def cause_of(frame: FrameType | None) -> Cause | None:
    """Return the request that a thread works on, by its stack; None if it works on none."""
    while frame is not None:
        if frame.f_code.co_name == "__call__" and isinstance(call := frame.f_locals.get("call"), Call):
            return _cause(call)
        frame = frame.f_back
    return None


def _cause(call: Call) -> Cause:
    http = call.http
    user = call.identity.user if call.identity is not None else None
    name = user.name[:SHOWN] if user is not None else ""
    path = http.rel_url.raw_path_qs[:SHOWN]
    key = "" if user is None else shape_of(http, user, call.target)
    return Cause(f"user={name!r} verb={call.verb[:SHOWN]} path={path!r}", key)


class StalledRequests:
    """The records as this process last read them. `read` may run in any thread."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._stalls: dict[str, Stall] = {}

    def read(self) -> None:
        self._stalls = {stall.key: stall for stall in stalls.read_all(self._run) if stall.key}

    def check(self, http: web.BaseRequest, user: User, target: Target | None) -> None:
        """Raises TooManyRequests for a request of a shape that holds, or ended, a process."""
        if not self._stalls:
            return
        stall = self._stalls.get(shape_of(http, user, target))
        left = 0 if stall is None else math.ceil(stall.expires - time.time())
        if left > 0:
            raise TooManyRequests(
                f"a request like this one stopped an API server process, so it is refused for {left} s: "
                "change it, or try again then",
                retry_after=left,
            )

"""Bound the watches and streams that one user holds open, so that descriptors are left for everybody else.

They take no seats once they have begun, as upstream; `apiserver_longrunning_requests` counts them.
"""

import resource
from collections.abc import Callable

from actors.apiserver.api.errors import TooManyRequests
from actors.apiserver.api.user import User
from actors.apiserver.http.fairness.levels import GLOBAL_DEFAULT, WORKLOAD_LOW, standing_of

USER_SHARE = 4
"""One user may hold a quarter of the descriptors this process may open."""
FEWEST = 64
WATCH, STREAM = 1, 2
"""Descriptors: a stream (exec, attach, port-forward, log) is connected to its node as well."""
BOUNDED = (WORKLOAD_LOW, GLOBAL_DEFAULT)
"""Levels whose users are bounded: the plane's own processes and its admins are not."""


class LongRunning:
    def __init__(self, most: int = 0) -> None:
        """`most` descriptors of one user; 0 takes them from the limits of the process."""
        self._most = most or max(FEWEST, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // USER_SHARE)
        self._open: dict[str, int] = {}

    def check(self, user: User, descriptors: int) -> None:
        """Raises TooManyRequests if the user can open no more."""
        if self._open.get(user.name, 0) + descriptors > self._most and standing_of(user).usual.level in BOUNDED:
            message = f"user {user.name[:256]!r} has too many watches and streams open: close some, then try again"
            raise TooManyRequests(message, retry_after=1)

    def begin(self, user: User, descriptors: int) -> Callable[[], None]:
        """A watch or stream begins; call what is returned once, when it ends. Call `check` before."""
        name = user.name
        self._open[name] = self._open.get(name, 0) + descriptors

        def end() -> None:
            left = self._open[name] - descriptors
            if left:
                self._open[name] = left
            else:
                del self._open[name]

        return end

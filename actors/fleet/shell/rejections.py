"""Report writes that the API rejects for a reason that lasts: else a fleet without a right would wait in silence."""

import logging
from collections.abc import Awaitable, Callable

from protocols.kube.errors import ApiError
from protocols.kubeclient.workqueue import Key

LASTING = (400, 401, 403, 405, 422)
"""Codes of answers that somebody has to mend; the work is tried again all the same."""
log = logging.getLogger("fleet")


def reporting(work: Callable[[Key], Awaitable[None]]) -> Callable[[Key], Awaitable[None]]:
    """Return the work, which warns once for each kind of key and code: a fleet has thousands of objects."""
    reported: set[tuple[str, int]] = set()

    async def report(key: Key) -> None:
        try:
            await work(key)
        except ApiError as error:
            kind, name = key
            if error.code in LASTING and (kind, error.code) not in reported:
                reported.add((kind, error.code))
                log.warning(
                    "the API rejects what the fleet writes, will retry kind=%s object=%s error=%s", kind, name, error
                )
            raise

    return report

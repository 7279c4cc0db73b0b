"""The node's heartbeat: a Lease in kube-node-lease, renewed every 10 s."""

import asyncio
import logging
import random
import time
from collections.abc import Callable

from protocols.errors import NodeplaneError
from protocols.kinds.table import LEASES
from protocols.kube.times import now_micro
from protocols.kubeclient.client import ApiClient, ApiError
from protocols.lifecycle.node.lease import DURATION_S, NAMESPACE, lease_object
from protocols.process.rates import backoff_delay

RENEW_S, JITTER = 10.0, 0.04
RETRY_FIRST_S, RETRY_MOST_S = 0.2, 5.0
LATE_S = 0.75 * DURATION_S
log = logging.getLogger("podworker")


def now_s() -> float:
    """Return the time in seconds, including time in which the machine slept."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class LeaseRenewer:
    """Creates and renews the Lease."""

    def __init__(
        self, client: ApiClient, node: str, on_trouble: Callable[[str], None], on_late: Callable[[], None]
    ) -> None:
        """`on_trouble` is called with the reason why the lease is not renewed, and with "" when it is again.

        `on_late` is called after a renewal that was late enough for others to consider the node lost.
        """
        self._client, self._node = client, node
        self._on_trouble, self._on_late = on_trouble, on_late

    async def run(self, node_uid: Callable[[], str]) -> None:
        """Run until cancelled. `node_uid` returns the current uid of the Node object, the owner of a new lease."""
        failures, renewed = 0, now_s()
        while True:
            try:
                await self._renew(node_uid())
                if now_s() - renewed > LATE_S:
                    self._on_late()
                if failures:
                    self._on_trouble("")
                failures, renewed = 0, now_s()
                await asyncio.sleep(RENEW_S * (1 + JITTER * random.random()))
            except (NodeplaneError, OSError, TimeoutError) as error:
                failures += 1
                self._on_trouble(f"node lease not renewed: {error}")
                if failures == 8:
                    log.warning("node lease not renewed error=%s", error)
                await asyncio.sleep(backoff_delay(failures, RETRY_FIRST_S, RETRY_MOST_S))

    async def _renew(self, node_uid: str) -> None:
        """Renew or create the lease. Its namespace may not exist in the first moments: the caller retries soon."""
        body = {"spec": lease_object(self._node, node_uid, now_micro())["spec"]}
        try:
            await self._client.patch(LEASES, self._node, NAMESPACE, body)
        except ApiError as error:
            if error.code != 404:
                raise
            await self._client.create(LEASES, lease_object(self._node, node_uid, now_micro()), NAMESPACE)

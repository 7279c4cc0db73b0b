"""Takes part in an election: waits until this process leads, and ends it when it does no more."""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress

from protocols.errors import NodeplaneError
from protocols.kube.meta import Object
from protocols.kube.resources import LEASES, NAMESPACES
from protocols.kube.times import now_micro
from protocols.kubeclient.client import ApiAway, ApiClient, ApiError
from protocols.kubeclient.election import Election, ElectionOptions

RELEASE_S = 0.5


class LeadershipLost(NodeplaneError):
    """Raised when the lease could not be renewed in time or is another's: this process must do nothing more. It ends,
    and starts anew as one that stands by."""

    grpc = "ABORTED"


class Leader:
    def __init__(self, client: ApiClient, options: ElectionOptions, log: logging.Logger) -> None:
        self._client, self._options, self._log = client, options, log
        self._election = Election(options)

    async def lead(self, note: Callable[[str], None]) -> None:
        """Returns once this process leads; `note` is told who does meanwhile."""
        told = ""
        while not await self._try():
            if self._election.holder != told:
                told = self._election.holder
                note(f"standing by: {told} leads" if told else "standing by")
            await asyncio.sleep(self._options.retry)
        self._log.info("leads as %s", self._options.identity)
        note("leads")

    async def keep(self) -> None:
        """Renews for as long as it can. Raises LeadershipLost."""
        while True:
            await asyncio.sleep(self._options.retry)
            await self._try()
            if not self._election.leads(time.monotonic()):
                raise LeadershipLost(
                    f"lease {self._options.name} is lost; {self._election.holder or 'nobody'} holds it"
                )

    def _how(self) -> str:
        options, holder = self._options, self._election.holder
        if holder == options.identity:
            return f"lease {options.name} could not be renewed for {options.renew_deadline:g} s; standing by from now"
        return f"lease {options.name} is lost to {holder or 'nobody'}; standing by from now"

    async def release(self) -> None:
        """Lets another one lead at once, if the API can be told soon."""
        lease = self._election.released(now_micro())
        if lease is not None:
            with suppress(ApiAway, ApiError, TimeoutError):
                async with asyncio.timeout(RELEASE_S):
                    await self._client.update(LEASES, lease, self._options.namespace)

    async def _try(self) -> bool:
        """One look and, where it is ours to take or to renew, one write; whether we lead now. While we lead the last
        answer saves the look: the write is guarded by its version."""
        asked_at = time.monotonic()
        try:
            async with asyncio.timeout(self._options.renew_deadline / 2):
                if not self._election.leads(asked_at):
                    self._election.seen(await self._read(), time.monotonic())
                await self._write(asked_at)
        except (ApiAway, ApiError, TimeoutError) as error:
            self._log.info("lease %s: %s", self._options.name, str(error) or type(error).__name__)
            await self._look_again()
        return self._election.leads(time.monotonic())

    async def _write(self, asked_at: float) -> None:
        lease = self._election.wanted(time.monotonic(), now_micro())
        if lease is None:
            return
        if lease["metadata"].get("resourceVersion"):
            taken = await self._client.update(LEASES, lease, self._options.namespace)
        else:
            taken = await self._create(lease)
        self._election.written(taken, asked_at, time.monotonic())

    async def _create(self, lease: Object) -> Object:
        """On an empty store the namespace comes first, from whoever may create it."""
        namespace = self._options.namespace
        try:
            return await self._client.create(LEASES, lease, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
        with suppress(ApiError):
            await self._client.create(
                NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            )
        return await self._client.create(LEASES, lease, namespace)

    async def _look_again(self) -> None:
        """The write was refused or its answer lost: what is stored tells."""
        with suppress(ApiAway, ApiError, TimeoutError):
            async with asyncio.timeout(self._options.renew_deadline / 5):
                self._election.seen(await self._read(), time.monotonic())

    async def _read(self) -> Object | None:
        try:
            return await self._client.get(LEASES, self._options.name, self._options.namespace)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

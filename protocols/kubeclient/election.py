"""Leader election by a Lease object, as in upstream's controllers and schedulers.

A leader may act until `renew_deadline` after the *start* of its last successful renewal. Others wait `duration` from
when they *saw* that renewal. So with clocks that run equally fast there are never two leaders at once. `Election` is
pure; `LeaderElector` drives it with an API client.
"""

import asyncio
import logging
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from protocols.actor.context import Context
from protocols.errors import NodeplaneError
from protocols.kinds.table import LEASES, NAMESPACES
from protocols.kube.meta import Object
from protocols.kube.times import now_micro
from protocols.kubeclient.client import ApiAway, ApiClient, ApiError, find
from protocols.process.files import write_atomic


class ElectionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Name of the Lease, this candidate's identity, and upstream's durations in seconds."""

    name: str
    identity: str
    """Differs between candidates; a candidate that was killed is the same one when it is back."""
    namespace: str = "kube-system"
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0
    """Seconds between two attempts."""
    released: Path | None = None
    """File that an orderly end touches, so that the next start lets other candidates lead first."""


class Election:
    """State of one candidate: call `seen` with the lease that was read or written, then write what `wanted` returns."""

    def __init__(self, options: ElectionOptions) -> None:
        self.options = options
        self._lease: Object | None = None
        self._term: tuple[object, ...] = ()
        self._seen_at = 0.0
        self._sure_until = float("-inf")

    @property
    def holder(self) -> str:
        return str(self._spec.get("holderIdentity") or "")

    @property
    def _spec(self) -> Object:
        return dict((self._lease or {}).get("spec") or {})

    def leads(self, now: float) -> bool:
        return now < self._sure_until

    def left(self, now: float) -> float:
        """Return the seconds for which a leader may act without another renewal."""
        return self._sure_until - now

    def seen(self, lease: Object | None, now: float) -> None:
        """Note the stored lease. An unchanged one is as old as when it was first seen."""
        self._lease = lease
        if self.holder != self.options.identity:
            self._sure_until = float("-inf")
        spec = self._spec
        term = (lease is None, *(spec.get(field) for field in ("holderIdentity", "renewTime", "leaseTransitions")))
        if term != self._term:
            self._term, self._seen_at = term, now

    def wanted(self, now: float, stamp: str) -> Object | None:
        """The lease to write, guarded by the version of the one seen; None while somebody else leads.

        `stamp` is the current time as a MicroTime.
        """
        spec, mine = self._spec, self.holder == self.options.identity
        if not mine and self.holder and now < self._seen_at + self._patience(spec):
            return None
        transitions = int(spec.get("leaseTransitions") or 0)
        return self._with(
            {
                "holderIdentity": self.options.identity,
                "leaseDurationSeconds": max(1, round(self.options.duration)),
                "acquireTime": (spec.get("acquireTime") or stamp) if mine else stamp,
                "renewTime": stamp,
                "leaseTransitions": transitions + (self._lease is not None and not mine),
            }
        )

    def written(self, lease: Object, asked_at: float, now: float) -> None:
        """Note that our write succeeded."""
        self.seen(lease, now)
        self._sure_until = asked_at + self.options.renew_deadline

    def released(self, stamp: str) -> Object | None:
        """Return the lease by which another candidate can lead at once; None if it is not ours."""
        if self.holder != self.options.identity:
            return None
        self._sure_until = float("-inf")
        spec = {**self._spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": stamp}
        return self._with(spec)

    def _patience(self, spec: Object) -> float:
        """The holder's own promise counts where it is longer than ours."""
        stated = spec.get("leaseDurationSeconds")
        return max(self.options.duration, float(stated)) if isinstance(stated, int | float) else self.options.duration

    def _with(self, spec: Object) -> Object:
        options = self.options
        fresh = {"name": options.name, "namespace": options.namespace}
        metadata = fresh if self._lease is None else self._lease["metadata"]
        return {**LEASES.type_meta, "metadata": metadata, "spec": spec}


RELEASE_S = 0.5
YIELD_S = 3.0
"""Seconds after a release in which this candidate does not lead again: others, also upstream's, try every 2.4 s."""


class LeadershipLost(NodeplaneError):
    """Raised when the lease could not be renewed in time or is another's: this process must not act any more.

    It ends, and its restart stands by.
    """

    grpc = "ABORTED"


class LeaderElector:
    """Holds a Lease through the API: await `lead`, run `renew` while leading."""

    def __init__(self, client: ApiClient, options: ElectionOptions, log: logging.Logger) -> None:
        self._client, self._options, self._log = client, options, log
        self._election = Election(options)

    async def lead(self, note: Callable[[str], None]) -> None:
        """Return once this process leads; meanwhile `note` gets the current leader."""
        noted = ""
        await self._yield()
        while not await self._try():
            if self._election.holder != noted:
                noted = self._election.holder
                note(f"standing by: {noted} leads" if noted else "standing by")
            await asyncio.sleep(self._options.retry)
        self._log.info("leads as %s", self._options.identity)
        note("leads")

    async def _yield(self) -> None:
        file = self._options.released
        with suppress(OSError):
            since = time.time() - file.stat().st_mtime if file is not None else YIELD_S
            if 0 <= since < YIELD_S:
                await asyncio.sleep(YIELD_S - since)

    async def renew(self) -> None:
        """Renew the lease until that fails for too long; raises LeadershipLost at that moment, whatever is awaited."""
        while (left := self._election.left(time.monotonic())) > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await asyncio.sleep(self._options.retry)
                    await self._try()
        raise LeadershipLost(self._how())

    def _how(self) -> str:
        options, holder = self._options, self._election.holder
        if holder == options.identity:
            return f"lease {options.name} could not be renewed for {options.renew_deadline:g} s; standing by from now"
        return f"lease {options.name} is lost to {holder or 'nobody'}; standing by from now"

    async def release(self) -> None:
        """Release the lease, so that another process leads at once, if the API answers soon."""
        lease = self._election.released(now_micro())
        if lease is not None:
            with suppress(ApiAway, ApiError, TimeoutError, OSError):
                async with asyncio.timeout(RELEASE_S):
                    await self._client.update(LEASES, lease, self._options.namespace)
                if self._options.released is not None:
                    self._options.released.touch()

    async def _try(self) -> bool:
        """Read the lease and, if we may take or renew it, write it; return True when this process leads.

        While it leads no read is needed: the resource version guards the write.
        """
        asked_at = time.monotonic()
        try:
            async with asyncio.timeout(self._options.renew_deadline / 2):
                if not self._election.leads(asked_at):
                    self._election.seen(await self._read(), time.monotonic())
                await self._write(asked_at)
        except (ApiAway, ApiError, TimeoutError) as error:
            self._log.info("lease %s: %s", self._options.name, str(error) or type(error).__name__)
            await self._read_again()
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
        """Create the lease; on an empty store its namespace first, if permitted."""
        namespace = self._options.namespace
        try:
            return await self._client.create(LEASES, lease, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
        with suppress(ApiError):
            await self._client.create(NAMESPACES, {**NAMESPACES.type_meta, "metadata": {"name": namespace}})
        return await self._client.create(LEASES, lease, namespace)

    async def _read_again(self) -> None:
        """Read the lease after a write that was rejected or whose answer was lost."""
        with suppress(ApiAway, ApiError, TimeoutError):
            async with asyncio.timeout(self._options.renew_deadline / 5):
                self._election.seen(await self._read(), time.monotonic())

    async def _read(self) -> Object | None:
        return await find(self._client, LEASES, self._options.name, self._options.namespace)


def leader_elector(context: Context, client: ApiClient, lease: str) -> LeaderElector | None:
    """Return the elector of an actor that works in one control plane of a store at a time.

    None where the settings say that there is one control plane.
    """
    if not context.settings.leader_elect:
        return None
    run, instance = context.layout.run, context.instance
    options = ElectionOptions(
        name=lease, identity=identity(run / f"{instance}.id"), released=run / f"{instance}.released"
    )
    return LeaderElector(client, options, context.log)


def identity(path: Path) -> str:
    """Return an instance's name in elections, which survives restarts.

    The instance's lock on the bus keeps two processes from having it at once, so one that was killed leads again as
    soon as it is back. A root copied to another machine gets a new name.
    """
    host = f"{socket.gethostname()}_"
    with suppress(OSError, UnicodeDecodeError):
        known = path.read_text().strip()
        if known.startswith(host) and len(known) > len(host):
            return known
    new_identity = f"{host}{uuid.uuid4()}"
    write_atomic(path, f"{new_identity}\n".encode())
    return new_identity

"""Who of several leads, by a Lease object, as upstream's controllers and schedulers elect. Pure: time is given.

A leader is sure of it until `renew_deadline` after the *start* of its last renewal that was taken. Others wait
`duration` from when they *saw* that renewal. So with clocks that run equally fast never two are sure at once.
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
from protocols.kube.meta import Object
from protocols.kube.resources import LEASES, NAMESPACES
from protocols.kube.times import now_micro
from protocols.kubeclient.client import ApiAway, ApiClient, ApiError
from protocols.process.files import write_atomic


class ElectionOptions(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    identity: str
    """Differs between candidates; a candidate that was killed is the same one when it is back."""
    namespace: str = "kube-system"
    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0
    """Seconds between two looks."""


class Election:
    """One candidate's view. `seen` what was read or written last, then `wanted` what to write."""

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

    def seen(self, lease: Object | None, now: float) -> None:
        """What is stored. A lease that did not change since is as old as when it was first seen."""
        self._lease = lease
        if self.holder != self.options.identity:
            self._sure_until = float("-inf")
        spec = self._spec
        term = (lease is None, *(spec.get(field) for field in ("holderIdentity", "renewTime", "leaseTransitions")))
        if term != self._term:
            self._term, self._seen_at = term, now

    def wanted(self, now: float, stamp: str) -> Object | None:
        """The lease to write, guarded by the version of the one seen; None while somebody else leads. `stamp` is now
        as people read it."""
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
        """Our write was taken."""
        self.seen(lease, now)
        self._sure_until = asked_at + self.options.renew_deadline

    def released(self, stamp: str) -> Object | None:
        """The lease that lets another one lead at once; None when it is not ours."""
        if self.holder != self.options.identity:
            return None
        self._sure_until = float("-inf")
        spec = {**self._spec, "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": stamp}
        return self._with(spec)

    def _patience(self, spec: Object) -> float:
        """The holder's own promise counts where it is longer than ours."""
        told = spec.get("leaseDurationSeconds")
        return max(self.options.duration, float(told)) if isinstance(told, int | float) else self.options.duration

    def _with(self, spec: Object) -> Object:
        options = self.options
        fresh = {"name": options.name, "namespace": options.namespace}
        metadata = fresh if self._lease is None else self._lease["metadata"]
        return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}


RELEASE_S = 0.5


class LeadershipLost(NodeplaneError):
    """Raised when the lease could not be renewed in time or is another's: this process must do nothing more. It ends,
    and starts anew as one that stands by."""

    grpc = "ABORTED"


class LeaderElector:
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

    async def renew(self) -> None:
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


def leader_elector(context: Context, client: ApiClient, lease: str) -> LeaderElector | None:
    """None where nobody else can be there: the settings say whether to elect."""
    if not context.settings.leader_elect:
        return None
    options = ElectionOptions(name=lease, identity=identity(context.layout.run / f"{context.instance}.id"))
    return LeaderElector(client, options, context.log)


def identity(path: Path) -> str:
    """An instance's name in elections, for all its lives: its lock on the bus keeps two from having it at once, so one
    that was killed leads again as soon as it is back. A root copied to another machine gets a name of its own."""
    host = f"{socket.gethostname()}_"
    with suppress(OSError, UnicodeDecodeError):
        known = path.read_text().strip()
        if known.startswith(host) and len(known) > len(host):
            return known
    made = f"{host}{uuid.uuid4()}"
    write_atomic(path, f"{made}\n".encode())
    return made

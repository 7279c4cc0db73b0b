"""Attach devices after their allocation: report their binding conditions in the status of claims (KEP-5007).

A device is attached some seconds after it was allocated. If it is broken by then, its failure conditions are reported
instead. What was reported is in the claim, so whoever restarts goes on with it.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from protocols.dra.binding import allocated_key
from protocols.dra.pods import results_of
from protocols.kinds import views
from protocols.kinds.table import RESOURCECLAIMS
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import key_of, namespace_of, uid_of
from protocols.kube.times import now
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import Informer, InformerOptions
from protocols.kubeclient.workqueue import Key, WorkQueue
from protocols.process.tasks import restarted

IDENTITY: tuple[Literal["driver", "pool", "device", "shareID"], ...] = ("driver", "pool", "device", "shareID")
CLAIM = "claim"
"""Kind of work."""
AWAY_S = 5.0
"""Time until a device is looked at again that nobody can attach now."""
log = logging.getLogger("attacher")


class Attachment(NamedTuple):
    """Outcome for one device."""

    works: bool
    """False: its failure conditions are reported."""
    message: str = ""


class AttacherOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which devices to attach, when and how."""

    client: ApiClient
    is_mine: Callable[[Mapping[str, Any]], bool]
    """Takes a result of an allocation."""
    attach: Callable[[Mapping[str, Any]], Attachment | None]
    """Takes a result of an allocation that is ours. None: nobody can attach the device now."""
    seconds: float
    """Time from an allocation until its devices are attached."""
    say: Callable[[str], None] = log.debug
    """Takes a line about each device, and about each report that the API did not take."""


class Attacher:
    """Follows claims; holds those with devices that are not attached yet."""

    def __init__(self, options: AttacherOptions) -> None:
        self._options = options
        self._queue = WorkQueue(self._attach, log)
        self._waiting: dict[str, views.ResourceClaim] = {}
        """Claims by key."""
        self._informer = Informer(options.client, RESOURCECLAIMS, InformerOptions(), self)

    async def run(self) -> None:
        """Never ends."""
        await asyncio.gather(restarted(self._informer.run, "informer"), self._queue.run())

    def on_add(self, obj: views.ResourceClaim) -> None:
        key = key_of(obj)
        if not self._missing(obj):
            self._forget(key)
            return
        known = self._waiting.get(key)
        self._waiting[key] = obj
        if known is None or uid_of(known) != uid_of(obj):
            self._queue.put_later((CLAIM, key), self._options.seconds)

    def on_update(self, old: views.ResourceClaim, new: views.ResourceClaim) -> None:
        if not self._missing(old):
            self._forget(key_of(new))  # of an earlier allocation
        self.on_add(new)

    def on_delete(self, obj: views.ResourceClaim) -> None:
        self._forget(key_of(obj))

    def _forget(self, key: str) -> None:
        self._waiting.pop(key, None)
        self._queue.cancel_timer((CLAIM, key))

    async def _attach(self, key: Key) -> None:
        """Report the devices of a claim. Raises ApiAway, ApiError: it is tried again."""
        claim = self._waiting.get(key[1])
        if claim is None:
            return
        missing = self._missing(claim)
        attachments = [self._options.attach(device) for device in missing]
        attached = [device for device in attachments if device is not None]
        if len(attached) < len(attachments):
            self._queue.put_later(key, AWAY_S)
            return
        entries = list(map(_entry, missing, attached))
        if not await self._report(key[1], claim, entries):
            return
        self._forget(key[1])
        for result, attachment in zip(missing, attached, strict=True):
            verb = "attached" if attachment.works else "cannot attach"
            self._options.say(f"{verb} {result['device']} for claim {key[1]}")

    async def _report(self, key: str, claim: views.ResourceClaim, entries: list[views.AllocatedDeviceStatus]) -> bool:
        """Return False if the claim has gone. Raises ApiAway, ApiError."""
        status = claim.get("status") or {}
        body = {**claim, "status": {**status, "devices": [*(status.get("devices") or ()), *entries]}}
        try:
            await self._options.client.update(RESOURCECLAIMS, body, namespace_of(claim), "status")
        except (ApiAway, ApiError) as error:
            if isinstance(error, ApiError) and error.code == 404:
                self._forget(key)
                return False
            self._options.say(f"cannot report devices of claim {key}: {error}")
            raise
        return True

    def _missing(self, claim: views.ResourceClaim) -> list[views.DeviceRequestAllocationResult]:
        """Return our allocated devices with binding conditions and without a report."""
        reported = {allocated_key(device) for device in (claim.get("status") or {}).get("devices") or ()}
        return [
            result
            for result in results_of(claim)
            if result.get("bindingConditions")
            and allocated_key(result) not in reported
            and self._options.is_mine(result)
        ]


def _entry(result: views.DeviceRequestAllocationResult, attachment: Attachment) -> views.AllocatedDeviceStatus:
    types = result["bindingConditions"] if attachment.works else result.get("bindingFailureConditions") or ()
    condition: views.Condition = {
        "status": "True",
        "reason": "Attached" if attachment.works else "AttachFailed",
        "message": attachment.message,
        "lastTransitionTime": now(),
    }
    entry: views.AllocatedDeviceStatus = {"conditions": [{**condition, "type": kind} for kind in types]}
    for field in IDENTITY:
        if result.get(field):
            entry[field] = result[field]
    return entry

"""Attach devices after their allocation: report binding conditions in the status of claims (KEP-5007).

A device is attached some seconds after it was allocated. If its health is not Healthy by then, the failure condition is
reported instead. What was reported is in the claim, so a restarted driver goes on with it.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Literal

from actors.simulator.driver.health import HEALTHY, HealthBoard, ReportedHealth
from actors.simulator.driver.options import DriverOptions
from protocols.dra.binding import allocated_key
from protocols.dra.pods import results_of
from protocols.kinds import views
from protocols.kinds.table import RESOURCECLAIMS
from protocols.kube.errors import ApiAway, ApiError
from protocols.kube.meta import key_of, namespace_of, uid_of
from protocols.kube.times import now
from protocols.kubeclient.client import ApiClient
from protocols.kubeclient.informer import Informer, InformerOptions
from protocols.process.tasks import awaited, restarted

IDENTITY: tuple[Literal["driver", "pool", "device", "shareID"], ...] = ("driver", "pool", "device", "shareID")
CONFLICT_S, RETRY_S = 0.2, 5.0
"""After a conflict the informer has the new claim soon."""


class Attacher:
    """Follows claims; holds those with devices that are not attached yet."""

    def __init__(
        self, options: DriverOptions, client: ApiClient, board: HealthBoard, say: Callable[[str], None]
    ) -> None:
        self._options, self._client, self._board, self._say = options, client, board, say
        self._waiting: dict[str, tuple[float, views.ResourceClaim]] = {}
        """When to attach, and the claim, by its key."""
        self._changed = asyncio.Event()
        self._informer = Informer(client, RESOURCECLAIMS, InformerOptions(), self)

    def on_add(self, obj: views.ResourceClaim) -> None:
        if not self._missing(obj):
            self.on_delete(obj)
            return
        known = self._waiting.get(key_of(obj))
        again = known is not None and uid_of(known[1]) == uid_of(obj)
        due = known[0] if known and again else time.monotonic() + self._options.attach
        self._waiting[key_of(obj)] = (due, obj)
        self._changed.set()

    def on_update(self, old: views.ResourceClaim, new: views.ResourceClaim) -> None:
        if not self._missing(old):
            self._waiting.pop(key_of(new), None)  # of an earlier allocation
        self.on_add(new)

    def on_delete(self, obj: views.ResourceClaim) -> None:
        self._waiting.pop(key_of(obj), None)

    async def run(self) -> None:
        """Never ends."""
        following = awaited(restarted(self._informer.run, "informer"))
        try:
            while True:
                await self._sleep()
                began = time.monotonic()
                for key, (due, claim) in list(self._waiting.items()):
                    if due <= began:
                        await self._attach(key, claim)
        finally:
            following.cancel()

    async def _sleep(self) -> None:
        due = min((due for due, _ in self._waiting.values()), default=None)
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - time.monotonic())):
                await self._changed.wait()
        except TimeoutError:
            return
        self._changed.clear()

    async def _attach(self, key: str, claim: views.ResourceClaim) -> None:
        missing = self._missing(claim)
        status = claim.get("status") or {}
        devices = [*(status.get("devices") or ()), *map(self._entry, missing)]
        try:
            body = {**claim, "status": {**status, "devices": devices}}
            await self._client.update(RESOURCECLAIMS, body, namespace_of(claim), "status")
        except (ApiAway, ApiError) as error:
            code = error.code if isinstance(error, ApiError) else 0
            if code == 404:
                self._waiting.pop(key, None)
            else:
                self._say(f"cannot report devices of claim {key}: {error}")
                again = time.monotonic() + (CONFLICT_S if code == 409 else RETRY_S)
                self._waiting[key] = (again, self._waiting.get(key, (0.0, claim))[1])
            return
        self._waiting.pop(key, None)
        for each in missing:
            failed = self._health(each).health != HEALTHY
            self._say(f"{'cannot attach' if failed else 'attached'} {each['device']} for claim {key}")

    def _missing(self, claim: views.ResourceClaim) -> list[views.DeviceRequestAllocationResult]:
        """Return our allocated devices with binding conditions and without a report."""
        reported = {allocated_key(each) for each in (claim.get("status") or {}).get("devices") or ()}
        return [
            each
            for each in results_of(claim)
            if (each.get("driver"), each.get("pool")) == (self._options.driver, self._options.node)
            and each.get("bindingConditions")
            and allocated_key(each) not in reported
        ]

    def _health(self, result: views.DeviceRequestAllocationResult) -> ReportedHealth:
        return self._board.health.get(str(result["device"]), ReportedHealth())

    def _entry(self, result: views.DeviceRequestAllocationResult) -> views.AllocatedDeviceStatus:
        health = self._health(result)
        attached = health.health == HEALTHY
        types = result["bindingConditions"] if attached else result.get("bindingFailureConditions") or ()
        condition: views.Condition = {
            "status": "True",
            "reason": "Attached" if attached else "AttachFailed",
            "message": health.message,
            "lastTransitionTime": now(),
        }
        entry: views.AllocatedDeviceStatus = {"conditions": [{**condition, "type": each} for each in types]}
        for field in IDENTITY:
            if result.get(field):
                entry[field] = result[field]
        return entry

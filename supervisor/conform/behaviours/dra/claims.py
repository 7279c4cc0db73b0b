"""Claims with several requests, configuration, shares, several pods, conditions."""

import asyncio
import re
import time
from collections.abc import Set
from typing import Any

from supervisor.conform.async_api import Object
from supervisor.conform.dra.driver_peer import DriverPeer, contents, key_of, keys
from supervisor.conform.dra.objects import CLAIMS, REQUEST, DriverClaim, Offered
from supervisor.conform.program_stage import START_FACTOR
from supervisor.conform.scripts import check
from supervisor.conform.verdict import CallFailed, Failed, NotApplicable


@check
async def subrequests(driver: DriverPeer) -> None:
    """Prepare a claim with alternatives."""
    async with driver.claim(driver.offered()[:1], request="device/best") as claim:
        names = [name for device in await driver.prepared(claim) for name in device.request_names]
    if names and names != ["device"]:
        raise Failed(f"the result is of device/best, request_names is {names}; it must be ['device'] or empty")


@check
async def requests_apart(driver: DriverPeer) -> None:
    """Prepare a claim of two requests."""
    first, second = driver.offered(2)[:2]
    claim = await driver.objects.create_claim([first.result("first"), second.result("second")])
    try:
        devices = await driver.prepared(claim)
    finally:
        await driver.drop(claim)
    if [key_of(prepared) for prepared in devices] != keys([first, second]):
        raise Failed("two requests have a device each, the answer has others")
    for offered, other, request in ((first, second, "first"), (second, first, "second")):
        device = next(prepared for prepared in devices if key_of(prepared) == (offered.pool, offered.name))
        if (names := list(device.request_names)) != [request]:
            raise Failed(f"{offered.name} is for request {request}, its request_names are {names}")
        for id in device.cdi_device_ids:
            if _has(id, other.name) and not _has(id, offered.name):
                raise Failed(f"the CDI id of {offered.name}, {id}, has the name of {other.name}")


def _has(id: str, name: str) -> bool:
    return re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", id) is not None


PARAMETERS = {"apiVersion": "other.nodeplane.example/v1", "kind": "Unknown", "level": 7}


@check
async def opaque_config(driver: DriverPeer) -> None:
    """Prepare a claim that has the configuration of another driver's class."""
    offered = driver.offered()[0]
    opaque = {"driver": "other.nodeplane.example", "parameters": PARAMETERS}
    claim = await driver.objects.create_claim([offered.result()], [{"source": "FromClass", "opaque": opaque}])
    try:
        if (ids := [key_of(device) for device in await driver.prepared(claim)]) != keys([offered]):
            raise Failed(f"{offered.name} was allocated with a configuration of another driver, the answer has {ids}")
    finally:
        await driver.drop(claim)


FOREIGN = {"request": "other", "driver": "other.nodeplane.example", "pool": "other", "device": "other"}


@check
async def other_drivers(driver: DriverPeer) -> None:
    """Prepare a claim whose first result is another driver's."""
    offered = driver.offered()[0]
    claim = await driver.objects.create_claim([FOREIGN, offered.result()])
    try:
        if (ids := [key_of(device) for device in await driver.prepared(claim)]) != keys([offered]):
            raise Failed(f"{offered.name} was allocated beside a device of another driver, the answer has {ids}")
    finally:
        await driver.drop(claim)


@check
async def shares(driver: DriverPeer) -> None:
    """Prepare two shares, unprepare one, and prepare the other again."""
    shared = [offered for offered in driver.offered() if offered.device.get("allowMultipleAllocations")][:1]
    if not shared:
        raise NotApplicable("no device has allowMultipleAllocations")
    async with driver.claim(shared) as first, driver.claim(shared) as second:
        one, other = [await _share(driver, claim) for claim in (first, second)]
        if driver.versions[0] == "v1.DRAPlugin" and (not one.share_id or one.share_id == other.share_id):
            raise Failed(f"the shares have the share_id {one.share_id!r} and {other.share_id!r}")
        if set(one.cdi_device_ids) & set(other.cdi_device_ids) and one.cdi_device_ids:
            raise Failed(f"both shares have the CDI id {one.cdi_device_ids[0]}")
        await driver.unprepared(first)
        if list((await _share(driver, second)).cdi_device_ids) != list(other.cdi_device_ids):
            raise Failed("after the end of one share the other has other CDI ids")


async def _share(driver: DriverPeer, claim: DriverClaim) -> Any:
    """Prepare a claim of one device; return that. Raises Failed."""
    devices = await driver.prepared(claim)
    if len(devices) != 1:
        raise Failed(f"claim {claim.name} has one device, the answer has {len(devices)}")
    return devices[0]


SEEN_S, WATCHED_S = 0.5, 1.0
"""Time in which a driver that follows claims sees both pods, and that one is gone."""


@check
async def shared_claim(driver: DriverPeer) -> None:
    """Prepare for two pods, take one away, prepare again, and unprepare."""
    pods = [await driver.objects.create_pod() for _ in range(2)]
    async with driver.claim(driver.offered()[:1], reserved=pods) as claim:
        try:
            devices = await driver.prepared(claim)
        except Failed as error:
            raise Failed(f"reserved for two pods, {error}") from None
        known = {id for device in devices for id in device.cdi_device_ids} & await asyncio.to_thread(driver.declared)
        await asyncio.sleep(SEEN_S)
        await driver.objects.reserve(claim.name, pods[1:])
        await asyncio.sleep(WATCHED_S)
        if lost := await driver.undeclared(known):
            raise Failed(f"no file declares {min(lost)} since one of two pods has ended; the other still uses it")
        if (again := contents(await driver.prepared(claim))) != contents(devices):
            raise Failed(f"since one of two pods has ended the answer is {again}, before {contents(devices)}")
        await driver.unprepared(claim)


@check
async def reserved_for(driver: DriverPeer) -> None:
    """Prepare a claim that is reserved for nobody, and unprepare one whose pod is gone."""
    async with driver.claim(driver.offered()[:1], reserved=[]) as claim:
        try:
            answers = await driver.prepare(claim)
        except CallFailed as error:
            raise Failed(f"with a claim that is reserved for no pod, {error}") from None
        if claim.uid not in answers:
            raise Failed(f"NodePrepareResources has no answer for claim {claim.name}, which is reserved for no pod")
        await driver.unprepared(claim)
    async with driver.claim(driver.offered()[:1]) as claim:
        await driver.prepared(claim)
        await driver.objects.reserve(claim.name, [])
        try:
            await driver.unprepared(claim)
        except Failed as error:
            raise Failed(f"reserved for no pod any more, {error}") from None


@check
async def admin_access(driver: DriverPeer) -> None:
    """Prepare a claim with admin access alone, and then beside one that holds the device."""
    offered = driver.offered()[0]
    try:
        await _prepare(driver, offered)
    except Failed as error:
        raise NotApplicable(f"the driver prepares no claim with admin access: {error}") from None
    async with driver.claim([offered]) as claim:
        ids = {id for device in await driver.prepared(claim) for id in device.cdi_device_ids}
        try:
            await _prepare(driver, offered, ids)
        except Failed as error:
            raise Failed(f"{offered.name} is in use, with admin access {error}") from None
        if lost := await driver.undeclared(ids):
            raise Failed(f"{min(lost)} is gone since a claim with admin access was unprepared")


async def _prepare(driver: DriverPeer, offered: Offered, others: Set[str] = frozenset()) -> None:
    """Prepare and unprepare a claim, beside CDI devices of others. Raises Failed."""
    claim = await driver.objects.create_claim([admin_result(offered)])
    try:
        if [key_of(device) for device in await driver.prepared(claim)] != keys([offered]):
            raise Failed("the answer has another device")
        if lost := await driver.undeclared(set(others)):
            raise Failed(await driver.why_undeclared(min(lost), "both claims are prepared, and"))
        await driver.unprepared(claim)
    finally:
        await driver.drop(claim)


def admin_result(offered: Offered) -> Object:
    """Return what the scheduler writes; it consumes nothing of a shared device."""
    result = {"request": REQUEST, "driver": offered.driver, "pool": offered.pool, "device": offered.name}
    return {**result, "adminAccess": True}


POLL_S = 0.2


@check
async def binding_conditions(driver: DriverPeer) -> None:
    """Allocate such a device, and wait."""
    chosen = [offered for offered in driver.offered() if offered.device.get("bindingConditions")][:1]
    if not chosen:
        raise NotApplicable("no device has bindingConditions")
    wanted = set(chosen[0].device["bindingConditions"])
    seconds = driver.timeout * START_FACTOR
    async with driver.claim(chosen) as claim:
        deadline = time.monotonic() + seconds
        while missing := wanted - _true(await driver.objects.ask("GET", f"{CLAIMS}/{claim.name}")):
            if time.monotonic() > deadline:
                raise Failed(f"{min(missing)} of {chosen[0].name} was not True within {seconds:g} s")
            await asyncio.sleep(POLL_S)


def _true(claim: dict[str, object]) -> set[str]:
    status = claim.get("status")
    devices = status.get("devices") or () if isinstance(status, dict) else ()
    return {
        condition["type"]
        for device in devices
        for condition in device.get("conditions") or ()
        if condition["status"] == "True"
    }


FIELDS = ("allocation", "reservedFor")


@check
async def claim_status(driver: DriverPeer) -> None:
    """Compare the status before with that after a claim was prepared, and unprepared."""
    async with driver.claim(driver.offered()[:1]) as claim:
        before = await _status(driver, claim)
        await driver.prepared(claim)
        _same(before, await _status(driver, claim), "prepared")
        await driver.unprepared(claim)
        _same(before, await _status(driver, claim), "unprepared")


async def _status(driver: DriverPeer, claim: DriverClaim) -> Object:
    status: Object = (await driver.objects.read(claim.name)).get("status") or {}
    return {name: status.get(name) for name in FIELDS}


def _same(before: Object, after: Object, when: str) -> None:
    if changed := [name for name in FIELDS if before[name] != after[name]]:
        raise Failed(
            f"status.{changed[0]} is {after[changed[0]]} once the claim is {when}, it was {before[changed[0]]}"
        )

"""NodePrepareResources: which claims are prepared, and which rejected."""

import asyncio
from contextlib import AsyncExitStack, suppress
from uuid import uuid4

from supervisor.conform.dra.driver_peer import SAMPLE, DriverPeer, answer_of, contents, key_of, keys
from supervisor.conform.dra.objects import NAMESPACE, REQUEST, DriverClaim, Offered
from supervisor.conform.scripts import check
from supervisor.conform.verdict import CallFailed, Failed, NotApplicable


@check
async def prepare_one(driver: DriverPeer) -> None:
    """Prepare a claim for each of the first devices."""
    for offered in driver.offered()[:2]:
        async with driver.claim([offered]) as claim:
            devices = await driver.prepared(claim)
            if [key_of(device) for device in devices] != keys([offered]):
                device_names = ", ".join("/".join(key_of(device)) for device in devices) or "none"
                raise Failed(f"{offered.pool}/{offered.name} was allocated, the answer has {device_names}")
            if (names := list(devices[0].request_names)) not in ([REQUEST], []):  # none means all, of one request
                raise Failed(f"the request is called {REQUEST}, request_names of {offered.name} is {names}")


@check
async def prepare_again(driver: DriverPeer) -> None:
    """Prepare a claim of several devices three times."""
    async with driver.claim(driver.offered()[:SAMPLE]) as claim:
        first = contents(await driver.prepared(claim))
        for number in ("second", "third"):
            try:
                again = contents(await driver.prepared(claim))
            except Failed as error:
                raise Failed(f"the {number} time: {error}") from None
            if again != first:
                raise Failed(f"the {number} answer is {again}, the first was {first}")


@check
async def prepare_all(driver: DriverPeer) -> None:
    """Prepare a claim of the first devices."""
    offered = driver.offered(2)[:SAMPLE]
    async with driver.claim(offered) as claim:
        devices = await driver.prepared(claim)
    if [key_of(device) for device in devices] != keys(offered):
        raise Failed(f"{len(offered)} devices were allocated, the answer has {len(devices)}, or others")
    first, second = set(devices[0].cdi_device_ids), set(devices[1].cdi_device_ids)
    if first and first < second:
        raise Failed(f"{devices[1].device_name} has the CDI ids of {devices[0].device_name} as well")


@check
async def prepare_claims(driver: DriverPeer) -> None:
    """Prepare two claims at once, and unprepare them at once."""
    first, second = driver.offered(2)[:2]
    async with driver.claim([first]) as one, driver.claim([second]) as other:
        answers = await driver.prepare(one, other)
        for claim, offered in ((one, first), (other, second)):
            if [key_of(device) for device in answer_of(claim, answers)] != keys([offered]):
                raise Failed(f"the answer for claim {claim.name} has other devices than {offered.name}")
        if len(answers) > 2 or (await driver.unprepare(one, other)).keys() != {one.uid, other.uid}:
            raise Failed("2 claims were asked for, the answer has other uids")


ROUNDS = 3


@check
async def parallel_calls(driver: DriverPeer) -> None:
    """Prepare and unprepare claims of different devices at once, each several times."""
    async with AsyncExitStack() as stack:
        claims = []
        for offered in driver.offered(2)[:SAMPLE]:
            claims.append((await stack.enter_async_context(driver.claim([offered])), offered))
        await asyncio.gather(*(_rounds(driver, claim, offered) for claim, offered in claims))


async def _rounds(driver: DriverPeer, claim: DriverClaim, offered: Offered) -> None:
    first = None
    for _ in range(ROUNDS):
        devices = await driver.prepared(claim)
        if [key_of(device) for device in devices] != keys([offered]):
            raise Failed(f"among calls at once, a claim of {offered.name} was answered with another device")
        first = first or contents(devices)
        if contents(devices) != first:
            raise Failed(f"among calls at once, the answers for a claim of {offered.name} differ")
        await driver.unprepared(claim)
        await driver.objects.pass_on(claim.name)


UNKNOWN = "nodeplane-no-such"


@check
async def unknown_device(driver: DriverPeer) -> None:
    """Prepare a claim with another device, and one with another pool."""
    offered = driver.offered()[0]
    for field in ("device", "pool"):
        claim = await driver.objects.create_claim([{**offered.result(), field: UNKNOWN}])
        try:
            answers = await driver.prepare(claim)
            if claim.uid not in answers or not answers[claim.uid].error:
                raise Failed(f"a claim of the {field} {UNKNOWN}, which is in no slice, was prepared")
        except CallFailed as error:
            raise Failed(f"an error of one claim is no error of the call: {error}") from None
        finally:
            await driver.drop(claim)


@check
async def not_allocated(driver: DriverPeer) -> None:
    """Prepare a claim that was never allocated."""
    claim = await driver.objects.create_claim([])
    try:
        answers = await driver.prepare(claim)
        if claim.uid not in answers or not answers[claim.uid].error:
            raise Failed("a claim that is not allocated was answered without an error")
    except CallFailed as error:
        raise Failed(f"an error of one claim is no error of the call: {error}") from None
    finally:
        await driver.drop(claim)


ANOTHER = "6d1d9c4e-0000-4000-8000-000000000002"


@check
async def wrong_uid(driver: DriverPeer) -> None:
    """Ask for the name with another uid."""
    async with driver.claim(driver.offered()[:1]) as claim:
        old = claim._replace(uid=ANOTHER)
        try:
            answers = await driver.prepare(old)
        except CallFailed as error:
            raise Failed(f"an error of one claim is no error of the call: {error}") from None
        if old.uid in answers and not answers[old.uid].error:
            await driver.unprepare(old)
            raise Failed(f"claim {old.name} was prepared for the uid {ANOTHER}, it has {claim.uid}")


MISSING = DriverClaim(NAMESPACE, "6d1d9c4e-0000-4000-8000-000000000001", "nodeplane-no-such-claim")


@check
async def errors_apart(driver: DriverPeer) -> None:
    """Prepare a claim that does not exist before one that does."""
    async with driver.claim(driver.offered()[:1]) as claim:
        try:
            answers = await driver.prepare(MISSING, claim)
        except CallFailed as error:
            raise Failed(f"with a claim that does not exist beside it, {error}") from None
        answer_of(claim, answers)
        if MISSING.uid not in answers or not answers[MISSING.uid].error:
            raise Failed("a claim that does not exist was answered without an error")


@check
async def namespaces(driver: DriverPeer) -> None:
    """Prepare a claim of a new namespace."""
    offered = driver.offered()[:1]
    objects = await driver.objects.of_namespace(f"conform-{uuid4().hex[:8]}")
    claim = await objects.create_claim([device.result() for device in offered])
    try:
        if [key_of(device) for device in await driver.prepared(claim)] != keys(offered):
            raise Failed(f"the claim of namespace {claim.namespace} has another device than {offered[0].name}")
        await driver.unprepared(claim)
    finally:
        with suppress(CallFailed, NotApplicable):
            await driver.unprepare(claim)
        await objects.delete_claim(claim.name)
        await objects.delete_namespace()


@check
async def reallocated(driver: DriverPeer) -> None:
    """Prepare and unprepare a claim of one device, then of another."""
    first, second = driver.offered(2)[:2]
    async with driver.claim([first]) as claim:
        await driver.prepared(claim)
        await driver.unprepared(claim)
        await driver.objects.deallocate(claim.name)
        await driver.objects.allocate(claim.name, [second.result()])
        ids = [key_of(device) for device in await driver.prepared(claim)]
        if ids != keys([second]):
            names = ", ".join(map("/".join, ids)) or "none"
            raise Failed(f"the claim had {first.name}, and was allocated {second.name} later; the answer has {names}")

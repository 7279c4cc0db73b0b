"""NodePrepareResources: which claims are prepared, and which rejected."""

import asyncio
from contextlib import AsyncExitStack, suppress
from uuid import uuid4

from supervisor.conform.dra.driver_peer import SAMPLE, DriverPeer, answer_of, contents, key_of, keys
from supervisor.conform.dra.objects import NAMESPACE, REQUEST, DriverClaim, Offered
from supervisor.conform.scripts import check
from supervisor.conform.sources import DRA_API, DRA_HELPER, DRA_KEP, DRA_MANAGER, RESOURCE_API
from supervisor.conform.verdict import CallFailed, Failed, NotApplicable


@check(
    "NodePrepareResources answers for a claim, with the devices of its allocation.",
    phase="calls",
    order=0,
    rule="The answer has an entry for the uid of each claim, with the pool and name of each device that the claim's"
    " status allocates to it, and the requests it is for.",
    source=f"{DRA_API}; {DRA_KEP}",
    advice="Read status.allocation.devices.results of the claim, take those of your driver; copy request, pool and"
    " device.",
)
async def prepare_one(driver: DriverPeer) -> None:
    """Prepare a claim for each of the first devices."""
    for offered in driver.offered()[:2]:
        async with driver.claim([offered]) as claim:
            devices = await driver.prepared(claim)
            if [key_of(device) for device in devices] != keys([offered]):
                device_names = ", ".join("/".join(key_of(device)) for device in devices) or "none"
                raise Failed(f"{offered.pool}/{offered.name} was allocated, the answer has {device_names}")
            if (names := list(devices[0].request_names)) != [REQUEST]:
                raise Failed(f"the request is called {REQUEST}, request_names of {offered.name} is {names}")


@check(
    "NodePrepareResources answers the same for a claim that is prepared already.",
    phase="calls",
    rule="A claim is prepared again after a kubelet restart, after an error of another driver, and for the next pod"
    " that shares it; the answer is the same.",
    source=f"{DRA_API}; {DRA_MANAGER}",
    advice="Make it idempotent: look first whether the claim's uid is prepared, and answer with all that was answered"
    " then, each device with its request and CDI ids.",
)
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


@check(
    "NodePrepareResources answers for a claim of several devices, each with its own CDI devices.",
    phase="calls",
    rule="A claim may have several devices; each is an entry, and a container gets the CDI ids of its requests.",
    source=DRA_API,
    advice="Loop over all results of the allocation, and give each device only the CDI ids that belong to it.",
)
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


@check(
    "NodePrepareResources answers for each of several claims of one call.",
    phase="calls",
    rule="One call has all claims of a pod; the answer has the uid of each, and no other.",
    source=f"{DRA_API}; {DRA_MANAGER}",
    advice="Loop over the claims of the request, and use the uid as the key of the answer.",
)
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


@check(
    "Claims are prepared while others are prepared and unprepared.",
    phase="calls",
    rule="Pods start and end in parallel: claims of one are prepared while those of another are unprepared.",
    source=DRA_MANAGER,
    advice="Lock by the claim's uid rather than the whole driver, and keep what belongs to a call in local variables.",
)
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


@check(
    "A claim of a device that the driver does not have is not prepared.",
    phase="calls",
    rule="Driver, pool and name are the device: one of another pool, or one that is gone, is not prepared; a success"
    " starts the container without it.",
    source=f"{DRA_API}; {RESOURCE_API}",
    advice="Compare pool and device of each result with what you publish, and answer with an error of that claim.",
)
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


@check(
    "A claim without an allocation is not prepared.",
    phase="calls",
    rule="status.allocation says which devices a claim has; without it, it has none: the pod that had it is dead.",
    source=f"{RESOURCE_API}; {DRA_HELPER}",
    advice="Answer with an error for the claim without status.allocation; read the claim from the API, not a cache.",
)
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


@check(
    "A claim that was deleted and created anew is not prepared for the old uid.",
    phase="calls",
    rule="The uid is that of the claim that the pod was given; a claim of the same name may be another one.",
    source=f"{DRA_API}; {DRA_HELPER}",
    advice="Compare metadata.uid of the claim that you read with the uid of the request, and answer with an error.",
)
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


@check(
    "A claim that cannot be prepared is an error of its own, and the others of the call are prepared.",
    phase="calls",
    rule="The error of a claim is in its entry of the answer; an error of the call is for what concerns all of them.",
    source=f"{DRA_API}; {DRA_HELPER}",
    advice="Put the text into NodePrepareResourceResponse.error of that uid, and go on with the next claim.",
)
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


@check(
    "A claim of any namespace is prepared.",
    phase="calls",
    rule="A claim is in the namespace of its pods; the call names it.",
    source=DRA_API,
    advice="Read the claim from the namespace of the request, with rights in all namespaces, as by a ClusterRole.",
)
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


@check(
    "A claim that was given back and is allocated to another device is prepared with that.",
    phase="calls",
    rule="A claim outlives its pods: it loses its allocation with the last one, and gets another with the next; the"
    " uid is the same.",
    source=f"{RESOURCE_API}; {DRA_API}",
    advice="Forget a claim when it is unprepared, and read its allocation from the API when it is prepared.",
)
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

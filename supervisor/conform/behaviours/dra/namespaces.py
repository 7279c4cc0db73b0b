"""A claim of any namespace is prepared."""

from contextlib import suppress
from uuid import uuid4

from supervisor.conform.dra.driver_peer import DriverPeer, key_of, keys
from supervisor.conform.sources import DRA_API
from supervisor.conform.verdict import CallFailed, Failed, NotApplicable

PHASE = "calls"
RULE = "A claim is in the namespace of its pods; the call names it."
SOURCE = DRA_API
ADVICE = "Read the claim from the namespace of the request, with rights in all namespaces, as by a ClusterRole."


async def check(driver: DriverPeer) -> None:
    """Prepare a claim of a new namespace."""
    offered = driver.offered()[:1]
    objects = await driver.objects.of_namespace(f"conform-{uuid4().hex[:8]}")
    claim = await objects.create_claim([each.result() for each in offered])
    try:
        if [key_of(each) for each in await driver.prepared(claim)] != keys(offered):
            raise Failed(f"the claim of namespace {claim.namespace} has another device than {offered[0].name}")
        await driver.unprepared(claim)
    finally:
        with suppress(CallFailed, NotApplicable):
            await driver.unprepare(claim)
        await objects.delete_claim(claim.name)
        await objects.delete_namespace()

"""NodePrepareResources answers for each of several claims of one call."""

from supervisor.conform.dra.driver_peer import DriverPeer, answer_of, key_of, keys
from supervisor.conform.sources import DRA_API, DRA_MANAGER
from supervisor.conform.verdict import Failed

PHASE = "calls"
RULE = "One call has all claims of a pod; the answer has the uid of each, and no other."
SOURCE = f"{DRA_API}; {DRA_MANAGER}"
ADVICE = "Loop over the claims of the request, and use the uid as the key of the answer."


async def check(driver: DriverPeer) -> None:
    """Prepare two claims at once, and unprepare them at once."""
    first, second = driver.offered(2)[:2]
    async with driver.claim([first]) as one, driver.claim([second]) as other:
        answers = await driver.prepare(one, other)
        for claim, offered in ((one, first), (other, second)):
            if [key_of(each) for each in answer_of(claim, answers)] != keys([offered]):
                raise Failed(f"the answer for claim {claim.name} has other devices than {offered.name}")
        if len(answers) > 2 or (await driver.unprepare(one, other)).keys() != {one.uid, other.uid}:
            raise Failed("2 claims were asked for, the answer has other uids")

"""What a driver's answer means for the claims it was asked for; the texts are upstream's. Pure."""

from collections.abc import Sequence
from typing import Any

from actors.devices.dra.errors import DriverFailed
from actors.devices.dra.types import ClaimInfo, PreparedDevice
from protocols.errors import NodeplaneError

MOST_DEVICES = 1024
"""Of one claim; its allocation has at most 32, and what is kept here goes into every List of the node."""
PREPARE, UNPREPARE = "NodePrepareResources", "NodeUnprepareResources"


class Outcome:
    """Of one call for several claims: which went well, and the first thing that did not."""

    def __init__(self) -> None:
        self.done: dict[str, tuple[PreparedDevice, ...]] = {}
        """By claim uid."""
        self.error: NodeplaneError | None = None


def read_reply(method: str, asked: Sequence[ClaimInfo], reply: Any) -> Outcome:
    """`reply` is any version's answer to `method`. One bad claim does not undo the good ones."""
    outcome, claims = Outcome(), {claim.uid: claim for claim in asked}
    for uid in sorted(reply.claims):
        answer = reply.claims[uid]
        if uid not in claims:
            _fail(outcome, f"{method} returned result for unknown claim UID {uid}")
        elif answer.error:
            _fail(outcome, f"{method} failed for ResourceClaim {claims[uid].name}: {answer.error}")
        elif method == PREPARE and len(answer.devices) > MOST_DEVICES:
            _fail(outcome, f"{method} returned {len(answer.devices)} devices for ResourceClaim {claims[uid].name}")
        else:
            outcome.done[uid] = tuple(_device(item) for item in answer.devices) if method == PREPARE else ()
    skipped = len(asked) - len(reply.claims)
    if skipped > 0:
        _fail(outcome, f"{method} skipped {skipped} ResourceClaims")
    return outcome


def _fail(outcome: Outcome, text: str) -> None:
    outcome.error = outcome.error or DriverFailed(" ".join(text.split()))


def _device(device: Any) -> PreparedDevice:
    shared = "share_id" in device.DESCRIPTOR.fields_by_name
    return PreparedDevice(
        pool=device.pool_name,
        device=device.device_name,
        requests=tuple(device.request_names),
        cdi_devices=tuple(device.cdi_device_ids),
        share_id=device.share_id if shared else "",
    )

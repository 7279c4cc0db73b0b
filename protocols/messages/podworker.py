"""Spoken by `podworker`: which pods of the node have ended, and what they held when they did."""

import msgspec

from protocols.messages.held import PodHeld

OWNER = "podworker"

ENDED_PODS = "ended-pods"
"""State stream, key = pod uid, value = EndedPod: pods that are over, still in the API, and held devices."""


class EndedPod(msgspec.Struct, frozen=True):
    uid: str
    namespace: str
    name: str
    held: PodHeld

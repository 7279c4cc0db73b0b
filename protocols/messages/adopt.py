"""Spoken by `adopt`: the streams of messages/devices.py in its place, from kubelet's answers, and how it fares."""

import msgspec

OWNER = "adopt"

STATE = "adopt-state"
"""State stream, key `kubelet`, value = AdoptState."""

KUBELET = "kubelet"


class AdoptState(msgspec.Struct, frozen=True):
    current: bool
    """kubelet answers: what the streams say is what it said last."""
    message: str = ""

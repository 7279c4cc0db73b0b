"""Messages of `adopt`: it owns the streams of messages/devices.py, made from kubelet's answers, and has a state."""

import msgspec

OWNER = "adopt"

STATE = "adopt-state"
"""State stream, key `kubelet`, value = AdoptState."""

KUBELET = "kubelet"


class AdoptState(msgspec.Struct, frozen=True):
    """State of the copy of kubelet's allocations."""

    current: bool
    """kubelet answers, and the streams hold its last answer."""
    message: str = ""

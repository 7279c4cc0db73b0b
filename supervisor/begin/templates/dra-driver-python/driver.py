"""A DRA driver for gpu.example.com: its devices, and what a container gets of them."""

from typing import Any

import kubelet

DRIVER = "gpu.example.com"
DEVICES = ("device-0", "device-1")


def devices() -> list[dict[str, Any]]:
    """Return the node's devices as in the spec of a ResourceSlice, with the same names for the same hardware.

    Ask your hardware here. A change is published within a minute.
    """
    return [{"name": name, "attributes": {"index": {"int": at}}} for at, name in enumerate(DEVICES)]


def prepare(claim: dict[str, Any], device: str) -> dict[str, Any]:
    """Make a device ready for the pods of a ResourceClaim; return its containerEdits, as in a CDI file.

    The same device may be prepared for the claim again: return the same. An error that this raises is shown in the
    events of the pod, and the call is repeated. Real devices need deviceNodes and mounts; here it is a variable.
    """
    return {"env": [f"{device.upper().replace('-', '_')}={claim['metadata']['uid']}"]}


def unprepare(uid: str) -> None:
    """Undo what prepare did for the claim with this uid, also if that is nothing or was undone before."""


if __name__ == "__main__":
    kubelet.Driver(DRIVER, devices, prepare, unprepare).run()

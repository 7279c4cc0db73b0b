"""A device plugin for example.com/gpu: its devices, their health, and what a container gets of them."""

import os
from collections.abc import Sequence
from pathlib import Path

import deviceplugin_v1beta1_pb2 as pb
import kubelet

RESOURCE = "example.com/gpu"
DEVICES = ("device-0", "device-1")


def devices() -> list[pb.Device]:
    """Return all devices, with the same ids for the same hardware. The kubelet is sent each change of the list.

    Ask your hardware here, quickly: this is called five times a second. The example reads a file.
    """
    path = Path(os.environ.get("BROKEN_DEVICES", "broken-devices.txt"))
    broken = path.read_text().split() if path.exists() else ()
    return [pb.Device(ID=id, health="Unhealthy" if id in broken else "Healthy") for id in DEVICES]


def allocate(ids: Sequence[str]) -> pb.ContainerAllocateResponse:
    """Return what a container needs to use these devices: envs, mounts, devices, annotations or cdi_devices.

    Have no lasting effects: the pod may still be rejected.
    """
    return pb.ContainerAllocateResponse(envs={"DEVICES": ",".join(ids)})


if __name__ == "__main__":
    kubelet.Plugin(RESOURCE, devices, allocate).run()

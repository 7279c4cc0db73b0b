"""An agent that prints which pod holds which device, and every change, as lines of JSON."""

import json

import kubelet
import podresources_v1_pb2 as pb


def devices(pod: pb.PodResources) -> list[str]:
    """Return what the agent needs of a pod: each change of it is reported. A kubelet lists in any order, so sort."""
    allocated: list[str] = []
    for container in pod.containers:
        allocated += [f"{device.resource_name}={id}" for device in container.devices for id in device.device_ids]
        for claim in container.dynamic_resources:
            for device in claim.claim_resources:
                allocated.append(f"{device.driver_name}/{device.pool_name}/{device.device_name}")
    return sorted(allocated)


def report(action: str, namespace: str, name: str, held: list[str]) -> None:
    """Do what the agent is for, once for each pod that is ADDED, UPDATED or DELETED; the last has no devices."""
    print(json.dumps({"action": action, "namespace": namespace, "name": name, "devices": held}), flush=True)


if __name__ == "__main__":
    kubelet.Follower(devices, report).run()

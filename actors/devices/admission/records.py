"""What the ledger keeps of an admitted pod, put together from its plan, its place and the plugins' answers."""

from dataclasses import dataclass

import msgspec

from actors.devices.admission.plan import PodPlan
from actors.devices.machine.placer import Placer
from actors.devices.plugins.inventory import Inventory
from actors.devices.types import DeviceKey, PodRecord
from protocols.messages.devices import AdmitPod, AllocatedDevice, ContainerAllocation, ContainerRequest, PodAllocation


@dataclass(frozen=True)
class Records:
    inventory: Inventory
    placer: Placer

    def of_plan(self, pod: AdmitPod, plan: PodPlan) -> PodAllocation:
        containers = (self._planned(pod.uid, item, plan.chosen.get(item.name, {})) for item in pod.containers)
        return PodAllocation(pod.uid, pod.namespace, pod.name, tuple(containers))

    def _planned(self, uid: str, container: ContainerRequest, chosen: dict[str, list[str]]) -> ContainerAllocation:
        devices = tuple(self._device(resource, id) for resource in sorted(chosen) for id in sorted(chosen[resource]))
        return self._placed(uid, ContainerAllocation(container.name, container.kind, devices))

    def named(self, pod: AdmitPod, known: PodRecord) -> PodAllocation:
        """The devices of `known`, in the containers that the pod has."""
        held = {container.name: container for container in known.allocation.containers}
        containers = (held.get(item.name, ContainerAllocation(item.name)) for item in pod.containers)
        kinds = {item.name: item.kind for item in pod.containers}
        placed = tuple(self._placed(pod.uid, msgspec.structs.replace(c, kind=kinds[c.name])) for c in containers)
        return msgspec.structs.replace(known.allocation, namespace=pod.namespace, name=pod.name, containers=placed)

    def _placed(self, uid: str, container: ContainerAllocation) -> ContainerAllocation:
        placed = self.placer.placed(uid, container.name)
        return msgspec.structs.replace(container, cpus=tuple(sorted(placed.cpus)), memory=placed.memory)

    def _device(self, resource: str, id: str) -> AllocatedDevice:
        reported = self.inventory.reported(DeviceKey(resource, id))
        return AllocatedDevice(resource=resource, id=id, numa=reported.numa if reported else ())

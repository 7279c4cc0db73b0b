"""Index from devices to claims to pods, maintained from informers' events. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from protocols.dra.pods import (
    claim_entries,
    claim_names,
    consumers,
    device_of,
    is_from_template,
    is_pod,
    results_of,
    used_claims,
)
from protocols.dra.types import DeviceId
from protocols.kinds import views
from protocols.kube.meta import key_of, namespace_of
from protocols.kube.pods import is_finished, node_of


class DeviceUsers:
    """Allocated devices, the claims that hold them and the pods these are reserved for.

    `claims` and `pods` are the informers' stores.
    """

    def __init__(self) -> None:
        self.claims: Mapping[str, views.ResourceClaim] = {}
        self.pods: Mapping[str, views.Pod] = {}
        self._by_device: defaultdict[DeviceId, set[str]] = defaultdict(set)
        self._devices: dict[str, frozenset[DeviceId]] = {}

    def put_claim(self, claim: views.ResourceClaim) -> set[str]:
        """Index a claim; return the keys of pods that may be affected."""
        key = key_of(claim)
        self._drop(key)
        devices = frozenset(map(device_of, results_of(claim)))
        if devices:
            self._devices[key] = devices
            for device in devices:
                self._by_device[device].add(key)
        return self._pods_of(claim)

    def drop_claim(self, claim: views.ResourceClaim) -> set[str]:
        self._drop(key_of(claim))
        return self._pods_of(claim)

    def of_device(self, device: DeviceId) -> set[str]:
        """Return the keys of pods that claims holding the device are reserved for."""
        return self.of_claims(self._by_device.get(device, ()))

    def of_claims(self, keys: Iterable[str]) -> set[str]:
        return {pod for key in keys if key in self.claims for pod in self._pods_of(self.claims[key])}

    def devices(self) -> Iterator[tuple[DeviceId, set[str]]]:
        """Yield each allocated device with the keys of the claims that hold it."""
        yield from self._by_device.items()

    def claims_of(self, pod: views.Pod) -> Iterator[tuple[views.ResourceClaim, bool]]:
        """Yield each existing claim of the pod, with True if it was generated from a template for this pod."""
        templates = {str(entry.get("name")) for entry in claim_entries(pod) if is_from_template(entry)}
        generated = {name for entry, name in claim_names(pod).items() if entry in templates}
        for name in used_claims(pod):
            if claim := self.claims.get(f"{namespace_of(pod)}/{name}"):
                yield claim, name in generated

    def _pods_of(self, claim: views.ResourceClaim) -> set[str]:
        namespace = namespace_of(claim)
        return {f"{namespace}/{consumer.get('name')}" for consumer in consumers(claim) if is_pod(consumer)}

    def _drop(self, key: str) -> None:
        for device in self._devices.pop(key, ()):
            holders = self._by_device[device]
            holders.discard(key)
            if not holders:
                del self._by_device[device]


def runs(pod: views.Pod) -> bool:
    """Return True for a pod that has a node and has not finished."""
    return bool(node_of(pod)) and not is_finished(pod)

"""Pods that come and go: a model of users and a scheduler that knows the node's devices."""

from typing import TYPE_CHECKING

from protocols.kinds.table import PODS, RESOURCECLAIMS
from protocols.kube.meta import Object, meta
from tests.simulation.node.pods import NAMESPACE, card_request, has_ended, hollow_pod, with_card
from tests.simulation.node.simulators import DRIVER

if TYPE_CHECKING:
    from tests.simulation.node.api import ModelApi
    from tests.simulation.world.world import World

MOST_CPUS = 6
YOUNG_S = 1.0
RATE = 2.4
"""Attempts a second: two pods, as some find the node full."""


class Load:
    """Creates a pod now and then, deletes some, and removes those that have ended."""

    def __init__(self, world: "World", api: "ModelApi", capacity: dict[str, int], cards: list[str]) -> None:
        self._world, self._api, self._capacity, self._cards = world, api, capacity, cards
        self._chance = world.random("load")
        self._most = int(world.draw("most_pods", 10, 16, 32))
        self._over = world.draw("overcommitted_share", 0.0, 0.05)
        self._deleted = world.draw("deleted_share", 0.1, 0.4)
        self.young = world.draw("deleted_young_share", 0.4, 0.1)
        """Share of pods that are deleted while they start."""
        self.quiet = bool(world.draw("quiet", 1, 0, 0))
        """True where no pod restarts: soon after the last one was made nothing happens any more."""
        self.made = 0
        self.ended = False

    def begin(self) -> None:
        self._world.at(0.3, None, self._tick)

    def end_in(self, seconds: float) -> None:
        def end() -> None:
            self.ended = True

        self._world.at(seconds, None, end)

    def _tick(self) -> None:
        if self.ended:
            return
        self._world.at(self._chance.expovariate(RATE), None, self._tick)
        self._sweep()
        pods = list(self._api.objects["pods"].values())
        if len(pods) >= self._most or (pods and self._chance.random() < self._deleted):
            self._delete(self._chance.choice(pods))
        if len(pods) < self._most:
            self._make()
            self._delete_young(f"pod-{self.made}")

    def _delete(self, pod: Object) -> None:
        self._api.remove(meta(pod)["name"], NAMESPACE, int(self._chance.choice((0, 1, 2))))

    def _delete_young(self, name: str) -> None:
        chance = self._world.random("load/young")
        if chance.random() < self.young:
            self._world.at(chance.uniform(0.0, YOUNG_S), None, lambda: self._remove(name))

    def _remove(self, name: str) -> None:
        if any(meta(pod)["name"] == name for pod in self._api.objects["pods"].values()):
            self._api.remove(name, NAMESPACE, 1)

    def _sweep(self) -> None:
        """Remove pods that have ended, as controllers of jobs do, and claims whose pod is gone."""
        for pod in list(self._api.objects["pods"].values()):
            if has_ended(pod):
                self._api.remove(meta(pod)["name"], NAMESPACE, 1)
        pods = {meta(pod)["uid"] for pod in self._api.objects["pods"].values()}
        for claim in list(self._api.objects["resourceclaims"].values()):
            if claim["status"]["reservedFor"][0]["uid"] not in pods:
                self._api.drop(RESOURCECLAIMS, meta(claim)["name"], NAMESPACE)

    def _make(self) -> None:
        chance = self._chance
        self.made += 1
        name = f"pod-{self.made}"
        limits: dict[str, str] = {"memory": "64Mi"}
        for resource, capacity in self._capacity.items():
            free = capacity - self._used(resource)
            wanted = chance.choice((0, 1, 1, 2))
            if wanted > free and chance.random() >= self._over:
                wanted = max(0, free)
            if wanted:
                limits[resource] = str(wanted)
        exclusive = chance.random() < 0.4 and self._used("cpu") < MOST_CPUS
        limits["cpu"] = "1" if exclusive else "100m"
        pod = hollow_pod(name, limits, chance)
        if self.quiet:
            pod["spec"]["restartPolicy"] = "Never"
        pod["spec"]["nodeName"] = "n1"
        pod["status"] = {"phase": "Pending"}
        card = self._free_card() if chance.random() < 0.4 else ""
        if card:
            with_card(pod, {"resourceClaimName": name})
        uid = meta(self._api.put(PODS, pod))["uid"]
        if card:
            self._api.put(RESOURCECLAIMS, _claim(name, card, uid))

    def _used(self, resource: str) -> int:
        """Return how many are asked for by pods that have not ended."""
        used = 0
        for pod in self._api.objects["pods"].values():
            if not has_ended(pod):
                limit = pod["spec"]["containers"][0]["resources"]["limits"].get(resource, "0")
                used += int(limit) if limit.isdigit() else 0
        return used

    def _free_card(self) -> str:
        claims = self._api.objects["resourceclaims"].values()
        taken = {claim["status"]["allocation"]["devices"]["results"][0]["device"] for claim in claims}
        free = [card for card in self._cards if card not in taken]
        return self._chance.choice(free) if free else ""


def _claim(name: str, card: str, pod_uid: str) -> Object:
    result = {"request": "card", "driver": DRIVER, "pool": "n1", "device": card}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": card_request(),
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": pod_uid}],
        },
    }

"""Owners that are deleted in each way: dependents go with them, before them or stay, and none goes before its time."""

import random
from collections.abc import Iterator, Sequence

from protocols.kinds.table import CONFIGMAPS, SECRETS
from protocols.kube.meta import Object, labels_of, meta, name_of, terminating, uid_of
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.flow import Written, listed, make_namespace, owner_uid, user

PAUSE_S = 0.3
SHOWN_S = 10.0
MOST = 20
"""Owners at a time."""
POLICIES = "Background", "Foreground", "Orphan"


class Owners:
    name = "owners"

    def __init__(self) -> None:
        self._made = 0

    def users(self, options: ClientOptions) -> dict[str, Main]:
        return {self.name: user(options, self._step, PAUSE_S)}

    async def _step(self, client: ApiClient, chance: random.Random) -> None:
        await make_namespace(client, self.name)
        owners = [each for each in await listed(client, CONFIGMAPS, self.name) if labels_of(each).get("policy")]
        if len(owners) < MOST:
            await self._make(client, chance)
        elif owners:
            owner = chance.choice(owners)
            await client.delete(
                CONFIGMAPS, name_of(owner), self.name, uid=uid_of(owner), policy=labels_of(owner)["policy"]
            )

    async def _make(self, client: ApiClient, chance: random.Random) -> None:
        self._made += 1
        name = f"owner-{self._made}"
        metadata: Object = {"name": name, "labels": {"policy": chance.choice(POLICIES)}}
        owner = await client.create(CONFIGMAPS, {**CONFIGMAPS.type_meta, "metadata": metadata}, self.name)
        reference = {**CONFIGMAPS.type_meta, "name": name, "uid": uid_of(owner), "blockOwnerDeletion": True}
        for number in range(chance.randint(1, 3)):
            dependent = {"name": f"{name}-{number}", "ownerReferences": [reference]}
            await client.create(SECRETS, {**SECRETS.type_meta, "metadata": dependent}, self.name)

    def check(self, commits: Sequence[Written]) -> Iterator[Broken]:
        family = _Family()
        for each in commits:
            yield from family.take(each)
        for name, (_, uid) in family.dependents.items():
            if uid and uid not in family.owners:
                yield Broken("garbage is collected", f"{name} has an owner that is gone")
        for owner in family.owners.values():
            if terminating(owner):
                yield Broken("converged", f"{name_of(owner)} is still to end: {meta(owner).get('finalizers')}")


class _Family:
    """Owners and dependents that are there. Nobody but the garbage collector deletes a dependent.

    As upstream, it decides by what its watches show: of dependents that are younger than SHOWN_S it may not know yet.
    """

    def __init__(self) -> None:
        self.owners: dict[str, Object] = {}
        """By uid."""
        self.dependents: dict[str, tuple[float, str]] = {}
        """By name: when it was created, and the uid of its owner, empty once it has none."""

    def take(self, each: Written) -> Iterator[Broken]:
        if each.resource == "configmaps":
            if each.obj is not None:
                self.owners[uid_of(each.obj)] = each.obj
            elif uid_of(each.last) in self.owners:
                yield from self._owner_gone(each, uid_of(each.last), labels_of(each.last).get("policy"))
        elif each.resource == "secrets" and each.obj is not None:
            created, _ = self.dependents.get(each.name, (each.at, ""))
            self.dependents[each.name] = created, owner_uid(each.obj)
        elif each.resource == "secrets":
            yield from self._dependent_gone(each)

    def _owner_gone(self, each: Written, uid: str, policy: str | None) -> Iterator[Broken]:
        del self.owners[uid]
        ours = [name for name, (created, owner) in self.dependents.items() if owner == uid and _is_shown(each, created)]
        if policy == "Foreground" and ours:
            yield Broken("dependents end first", f"{each.name} at {each.revision} leaves {ours}")
        if policy == "Orphan" and ours:
            yield Broken("orphans stay", f"{each.name} at {each.revision} is still the owner of {ours}")

    def _dependent_gone(self, each: Written) -> Iterator[Broken]:
        _, uid = self.dependents.pop(each.name)
        if uid in self.owners and not terminating(self.owners[uid]):
            yield Broken("an owner that lives keeps its dependents", f"{each.name} at {each.revision}")
        elif not uid:
            yield Broken("orphans stay", f"{each.name} at {each.revision} is deleted")


def _is_shown(each: Written, created: float) -> bool:
    return each.at - created > SHOWN_S

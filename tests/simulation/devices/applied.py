"""Two appliers and an editor of the same objects: who owns a field is exact, and no conflict is lost."""

import random
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from protocols.kinds.table import CONFIGMAPS
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object, meta, version_of
from protocols.kubeclient.client import ApiClient, ClientOptions
from tests.simulation.model import Broken, Main
from tests.simulation.workloads.flow import Written, make_namespace, user

PAUSE_S = 0.25
OBJECTS, VALUES = 3, 2
KEYS = tuple(f"k{number}" for number in range(4))
FORCED, DELETED = 0.2, 0.05
"""Shares of the applies that take fields from others, and of the edits that delete an object."""
APPLIERS = "applier-0", "applier-1"
Data = dict[str, str]


class Answer(NamedTuple):
    """An apply that was acknowledged."""

    manager: str
    name: str
    config: Data
    forced: bool


class Applied:
    name = "applied"

    def __init__(self) -> None:
        self.answers: dict[int, list[Answer]] = {}
        """By the revision that was answered."""
        self._forced: list[Answer] = []
        """All that were sent: one without an answer may be what a later one without force finds done."""

    def users(self, options: ClientOptions) -> dict[str, Main]:
        appliers = {name: user(options, partial(self._apply, name), PAUSE_S) for name in APPLIERS}
        return {**appliers, "editor": user(options, self._edit, 2 * PAUSE_S)}

    async def _apply(self, manager: str, client: ApiClient, chance: random.Random) -> None:
        await make_namespace(client, self.name)
        name, forced = f"o{chance.randrange(OBJECTS)}", chance.random() < FORCED
        config = {key: f"v{chance.randrange(VALUES)}" for key in chance.sample(KEYS, chance.randint(0, 3))}
        body = {**CONFIGMAPS.type_meta, "metadata": {"name": name, "namespace": self.name}, "data": config}
        sent = Answer(manager, name, config, forced)
        if forced:
            self._forced.append(sent)
        answer = await client.apply(CONFIGMAPS, body, manager, force=forced)
        revision = int(version_of(answer))
        self.answers.setdefault(revision, []).append(sent)

    async def _edit(self, client: ApiClient, chance: random.Random) -> None:
        name = f"o{chance.randrange(OBJECTS)}"
        if chance.random() < DELETED:
            await client.delete(CONFIGMAPS, name, self.name)
            return
        value = chance.choice(("v0", "edited"))
        try:
            await client.patch(CONFIGMAPS, name, self.name, {"data": {chance.choice(KEYS): value}})
        except ApiError as error:
            if error.code != 404:
                raise

    def check(self, commits: Sequence[Written]) -> Iterator[Broken]:
        for each in commits:
            if each.resource != "configmaps" or not each.name.startswith("o"):
                continue
            if each.obj is not None:
                yield from _owned(each, each.obj)
            for answer in self.answers.pop(each.revision, ()):
                may_take = answer._replace(forced=True) in self._forced
                yield from _acknowledged(each, answer._replace(forced=may_take))
        for revision, answers in self.answers.items():
            yield Broken("an apply that was answered is there", f"{revision}: {answers}")


def _owners(obj: Object) -> dict[str, set[str]]:
    """Return the managers by the key of data that they own."""
    found: dict[str, set[str]] = {}
    for entry in meta(obj).get("managedFields") or ():
        for field in (entry["fieldsV1"].get("f:data") or {}).keys() - {"."}:
            found.setdefault(field.removeprefix("f:"), set()).add(entry["manager"])
    return found


def _data(obj: Object | None) -> Data:
    return (obj or {}).get("data") or {}


def _owned(each: Written, obj: Object) -> Iterator[Broken]:
    """Each key that is there has an owner, and one that was just changed only one: whoever changed it.

    A key goes when its last owner applies it no more: no edit removes any.
    """
    before, after, owners = _data(each.before), _data(obj), _owners(obj)
    if owners.keys() != after.keys():
        yield Broken("each field has an owner", f"{each.name} at {each.revision}: {owners} of {after}")
    for key, managers in _owners(each.before or {}).items():
        if key not in after and len(managers) > 1:
            yield Broken("a field stays while it has an owner", f"{each.name} at {each.revision}: {key} of {managers}")
    for key, value in after.items():
        if key in before and before[key] != value and len(owners.get(key, ())) > 1:
            text = f"{each.name} at {each.revision}: {key} is {value}, it was {before[key]}: {owners[key]}"
            yield Broken("who changes a field owns it", text)


def _acknowledged(each: Written, answer: Answer) -> Iterator[Broken]:
    """What was applied is there, is its manager's, and was nobody else's unless by force."""
    before, after, where = _data(each.before), _data(each.obj), f"{answer} at {each.revision}"
    owners = _owners(each.obj or {})
    mine = {key for key, managers in owners.items() if answer.manager in managers}
    if mine != answer.config.keys() or any(after.get(key) != value for key, value in answer.config.items()):
        yield Broken("what was applied is there", f"{where}: {after}, of which {mine} are its own")
    for key, managers in _owners(each.before or {}).items():
        taken = key in answer.config and managers - {answer.manager} and before.get(key) != answer.config[key]
        if taken and not answer.forced:
            yield Broken("no conflict is lost", f"{where}: {key} was {before.get(key)} of {managers}")
        is_left = key in after and after[key] == before.get(key)  # else an edit took it just before, in this commit
        if managers == {answer.manager} and key not in answer.config and is_left:
            yield Broken("what is applied no more is gone", f"{where}: {key} is {after[key]}")

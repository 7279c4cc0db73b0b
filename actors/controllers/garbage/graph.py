"""Who owns whom, and what follows from it. Pure: what is known is put in, what is worth a look comes out.

An owner that is not in the graph is not gone: only a live read says so, as a watch may lag.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from actors.controllers.common.kinds import Kinds
from protocols.kube.meta import Object, meta, name_of, namespace_of, terminating, uid_of
from protocols.kube.resources import Resource

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"


class State(Enum):
    """What became of an owner."""

    LIVING = "living"
    WAITING = "waiting"
    """Deleted in the foreground: it waits for those it owns."""
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Owner:
    api_version: str
    kind: str
    name: str
    uid: str
    blocks: bool = False


@dataclass(frozen=True, slots=True)
class Thing:
    """An object, as far as ownership goes."""

    resource: Resource
    namespace: str
    name: str
    uid: str
    owners: tuple[Owner, ...] = ()
    finalizers: frozenset[str] = frozenset()
    terminating: bool = False

    @property
    def waiting(self) -> bool:
        return self.terminating and FOREGROUND in self.finalizers


@dataclass(frozen=True)
class Delete:
    policy: str


@dataclass(frozen=True)
class Disown:
    """Forget these owners; another one lives."""

    uids: frozenset[str]


def thing_of(resource: Resource, obj: Object) -> Thing:
    metadata = meta(obj)
    return Thing(
        resource,
        namespace_of(obj),
        name_of(obj),
        uid_of(obj),
        tuple(map(_owner, metadata.get("ownerReferences") or ())),
        frozenset(metadata.get("finalizers") or ()),
        terminating(obj),
    )


def _owner(reference: Object) -> Owner:
    version, kind, name, uid = (str(reference.get(field) or "") for field in ("apiVersion", "kind", "name", "uid"))
    return Owner(version, kind, name, uid, bool(reference.get("blockOwnerDeletion")))


def can_follow(thing: Thing, resource: Resource | None) -> bool:
    """False for kinds nobody serves here, and for an owner within a namespace of something that is in none."""
    return resource is not None and (bool(thing.namespace) or not resource.namespaced)


def decide(thing: Thing, states: Sequence[State], has_children: bool) -> Delete | Disown | None:
    """`states` are those of its owners, in order."""
    if not thing.owners or thing.terminating:
        return None
    if State.LIVING in states:
        gone = frozenset(o.uid for o, state in zip(thing.owners, states, strict=True) if state is not State.LIVING)
        return Disown(gone) if gone else None
    if (State.WAITING in states and has_children) or FOREGROUND in thing.finalizers:
        return Delete("Foreground")
    return Delete("Orphan" if ORPHAN in thing.finalizers else "Background")


class Graph:
    """Things by uid, and the edges between them."""

    def __init__(self, kinds: Kinds | None = None) -> None:
        self._kinds = kinds or Kinds()
        self.things: dict[str, Thing] = {}
        self._children: dict[str, set[str]] = {}

    def put(self, thing: Thing) -> set[str]:
        """Whom to look at now."""
        old = self.things.get(thing.uid)
        if old == thing:
            return set()
        self._unlink(old)
        self.things[thing.uid] = thing
        for owner in thing.owners:
            self._children.setdefault(owner.uid, set()).add(thing.uid)
        touched = {thing.uid} | self._waiting_owners(thing) | (self._waiting_owners(old) if old else set())
        return touched | (self._children.get(thing.uid, set()) if thing.terminating else set())

    def remove(self, uid: str) -> set[str]:
        """Whom to look at now: those it owned, and those who waited for it."""
        old = self.things.pop(uid, None)
        self._unlink(old)
        return set(self._children.get(uid, ())) | (self._waiting_owners(old) if old else set())

    def children(self, uid: str) -> list[Thing]:
        return [self.things[child] for child in self._children.get(uid, ()) if child in self.things]

    def resource_of(self, owner: Owner) -> Resource | None:
        """None: a kind that is not served."""
        return self._kinds.find(owner.api_version, owner.kind)

    def owned_by_kind(self, resource: Resource) -> set[str]:
        """Things that name an owner of this kind."""
        things = self.things.values()
        return {thing.uid for thing in things if any(self.resource_of(owner) == resource for owner in thing.owners)}

    def standing(self, thing: Thing, owner: Owner) -> State | None:
        """None: not known here, ask the API."""
        resource = self.resource_of(owner)
        if not can_follow(thing, resource):
            return State.LIVING
        found = self.things.get(owner.uid)
        if found is None or (found.resource, found.name) != (resource, owner.name):
            return None
        if found.namespace and found.namespace != thing.namespace:
            return None
        return State.WAITING if found.waiting else State.LIVING

    def blocked(self, uid: str) -> bool:
        """Whether an object deleted in the foreground still has to wait for one it owns; a circle holds nobody up."""
        waiters: set[str] | None = None
        for child in self._blockers(uid):
            thing = self.things[child]
            if child != uid and not thing.waiting:
                return True
            waiters = self._waiters(uid) if waiters is None else waiters
            if child not in waiters:
                return True
        return False

    def _blockers(self, uid: str) -> Iterator[str]:
        for child in self._children.get(uid, ()):
            thing = self.things.get(child)
            if thing is not None and any(owner.uid == uid and owner.blocks for owner in thing.owners):
                yield child

    def _waiters(self, goal: str) -> set[str]:
        """Return `goal` and all that wait for it, perhaps through others. Each is looked at once."""
        found, ahead = {goal}, [goal]
        while ahead:
            thing = self.things.get(ahead.pop())
            for owner in thing.owners if thing is not None else ():
                above = self.things.get(owner.uid)
                if owner.blocks and owner.uid not in found and above is not None and above.waiting:
                    found.add(owner.uid)
                    ahead.append(owner.uid)
        return found

    def _waiting_owners(self, thing: Thing) -> set[str]:
        owners = (self.things.get(owner.uid) for owner in thing.owners)
        return {owner.uid for owner in owners if owner is not None and owner.terminating}

    def _unlink(self, thing: Thing | None) -> None:
        for owner in thing.owners if thing else ():
            children = self._children.get(owner.uid)
            if thing and children:
                children.discard(thing.uid)
                if not children:
                    del self._children[owner.uid]

"""The steps of a write in their order, on a store in memory."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec
import pytest

from actors.apiserver.api.errors import Conflict, Forbidden, Invalid, NotFound, TooManyRequests
from actors.apiserver.api.request.query import write_options
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.user import User
from actors.apiserver.api.stored import Stored
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.reads.lookups import Lookups
from actors.apiserver.replica.objects import Objects
from actors.apiserver.replica.replica import Replica
from actors.apiserver.storage.storage import HeldChanged, KeyExists, RevisionConflict, Storage
from actors.apiserver.table import TABLE
from actors.apiserver.writes.admission import admission
from actors.apiserver.writes.admission.admission import Admission
from actors.apiserver.writes.admission.rule import EVERY_KIND, NEEDS, Dependencies, Rule, Step
from actors.apiserver.writes.change import CREATE, DELETE, UPDATE, Change
from actors.apiserver.writes.delete import DeleteOptions, deleted
from actors.apiserver.writes.owners import stored_owners
from actors.apiserver.writes.path.binding import bind
from actors.apiserver.writes.path.steps import WritePath
from actors.apiserver.writes.update import replace_mutation
from protocols.kube.meta import Object
from protocols.kube.objects import at, fresh_copy

USER, NODE = User("ann"), User("system:node:n1", ("system:nodes",))
MAPS, PODS, CLAIMS = TABLE.of("configmaps"), TABLE.of("pods"), TABLE.of("resourceclaims")
NAMESPACE: Object = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "ns", "uid": "u"}, "spec": {}}


class Lagging:
    """A replica and the store behind it, which may have newer objects."""

    def __init__(self, resource: Any, *objects: Object) -> None:
        self.resource, self.objects, self.newest = resource, Objects(), dict[str, Stored]()
        self.revision = 6
        for obj in objects:
            self.objects.put(self.store(obj))

    def store(self, obj: Object) -> Stored:
        key = self.resource.key("ns", obj["metadata"]["name"])
        self.revision += 1
        self.newest[key] = Stored(key, self.revision, msgspec.json.encode(obj))
        return self.newest[key]


class Store:
    """Storage over these replicas; `log` has what it was asked for."""

    def __init__(self, *replicas: Lagging, taken: tuple[str, ...] = ()) -> None:
        self.replicas = {replica.resource.store: replica for replica in replicas}
        self.log: list[str] = []
        self._creates = list(taken)

    async def get(self, resource: Any, key: str) -> Stored | None:
        self.log.append("get")
        return self.replicas[resource.store].newest.get(key)

    async def create(self, resource: Any, key: str, raw: bytes, held: Mapping[bytes, int]) -> Stored:
        self.log.append("create")
        self._check(held)
        if self._creates:
            raise KeyExists(Stored(self._creates.pop(), 1, raw))
        return Stored(key, 99, raw)

    def are_together(self, one: Any, other: Any) -> bool:
        return True

    async def update(self, resource: Any, old: Stored, raw: bytes, held: Mapping[bytes, int]) -> Stored:
        newest = self.replicas[resource.store].newest[old.key]
        self.log.append("update")
        self._check(held)
        if newest.rv != old.rv:
            raise RevisionConflict(newest)
        return Stored(old.key, 99, raw)

    def _check(self, held: Mapping[bytes, int]) -> None:
        for replica in self.replicas.values():
            prefix, newest = replica.resource.storage_prefix, replica.newest
            revisions = {f"{prefix}{key}".encode(): stored.rv for key, stored in newest.items()}
            if any(key.startswith(prefix.encode()) and revisions.get(key) != rv for key, rv in held.items()):
                raise HeldChanged()


class Recorder(Rule):
    """One rule of each step, which writes down that it acted."""

    covers = {EVERY_KIND: (CREATE, UPDATE, DELETE)}  # noqa: RUF012
    log: list[str]

    def apply(self, change: Change) -> None:
        self.log.append(self.step.name)


def path(monkeypatch: pytest.MonkeyPatch, store: Store) -> WritePath:
    rules = [type(step.name, (Recorder,), {"step": step, "log": store.log}) for step in Step]
    monkeypatch.setattr(admission, "RULES", tuple(rules))
    given = Dependencies(cast(Authorizer, None), lambda name: None)
    return WritePath(cast(Any, store), cast(Any, store.replicas), Admission(given))


def config(data: str, **metadata: str) -> Object:
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "c", **metadata}, "data": {"a": data}}


def stored(data: str = "old") -> Object:
    return config(data, namespace="ns", uid="u", creationTimestamp="2026-01-01T00:00:00Z")


BEFORE_STORE = ["COMPLETE", "CHECK_AUTHOR", "MUTATE", "CHECK_VALID", "CHARGE"]


async def test_create_takes_the_steps_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(Lagging(TABLE.of("namespaces"), NAMESPACE), Lagging(MAPS))
    change = Change(Target(MAPS, "create", "ns"), USER, new=config("x"))
    written = await path(monkeypatch, store).create(change, stored_owners)
    assert store.log == [*BEFORE_STORE, "create"]
    assert written.stored.key == "ns/c"


async def test_generated_name_that_exists_is_drawn_again_and_charged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(Lagging(TABLE.of("namespaces"), NAMESPACE), Lagging(MAPS), taken=("a", "b"))
    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"generateName": "c-"}}
    written = await path(monkeypatch, store).create(Change(Target(MAPS, "create", "ns"), USER, new=body), stored_owners)
    assert store.log == [*BEFORE_STORE, "create", "CHECK_VALID", "create", "CHECK_VALID", "create"]
    assert written.stored.key.startswith("ns/c-")


async def test_create_depends_on_its_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its replica may lag, and rules may wait for long: the namespace may be empty and gone when the write comes."""
    namespaces = Lagging(TABLE.of("namespaces"), NAMESPACE)
    store = Store(namespaces, Lagging(MAPS))
    steps, target = path(monkeypatch, store), Target(MAPS, "create", "ns")
    namespaces.store({**NAMESPACE, "metadata": {"name": "ns", "labels": {"a": "b"}}})
    await steps.create(Change(target, USER, new=config("x")), stored_owners)
    assert store.log == [*BEFORE_STORE, "create", "get", "create"]
    namespaces.store({**NAMESPACE, "metadata": {"name": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    with pytest.raises(Forbidden, match="because it is being terminated"):
        await steps.create(Change(target, USER, new=config("x")), stored_owners)
    namespaces.newest.clear()
    with pytest.raises(NotFound, match='namespaces "ns" not found'):
        await steps.create(Change(target, USER, new=config("x")), stored_owners)


async def test_create_of_a_custom_resource_depends_on_its_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    kind: Any = type("Kind", (), {"terminating": False, "shape": None})()
    row = msgspec.structs.replace(MAPS, group="example.com", plural="widgets", namespaced=False, custom=kind)
    definitions, name = TABLE.of("customresourcedefinitions"), "widgets.example.com"
    replica = Lagging(definitions, {"kind": "CustomResourceDefinition", "metadata": {"name": name}})
    ending = {"name": name, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    store = Store(Lagging(TABLE.of("namespaces"), NAMESPACE), Lagging(row), replica)
    steps, body = path(monkeypatch, store), {**config("x"), "apiVersion": "example.com/v1"}
    await steps.create(Change(Target(row, "create"), USER, new=fresh_copy(body)), stored_owners)
    replica.store({"kind": "CustomResourceDefinition", "metadata": ending})
    with pytest.raises(Forbidden, match="definition is terminating"):
        await steps.create(Change(Target(row, "create"), USER, new=fresh_copy(body)), stored_owners)
    assert store.log == [*BEFORE_STORE, "create", *BEFORE_STORE, "create", "get"]


async def test_update_takes_the_steps_again_after_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    replica = Lagging(MAPS, stored())
    store = Store(replica)
    replica.newest["ns/c"] = Stored("ns/c", 50, replica.newest["ns/c"].raw)
    change = Change(Target(MAPS, "update", "ns", "c"), USER)
    written = await path(monkeypatch, store).change(
        change, replace_mutation(change.target, config("new"), stored_owners)
    )
    assert store.log == [*BEFORE_STORE, "update"] * 2
    assert b'"new"' in written.stored.raw
    assert change.old is not None
    assert (change.old["data"], change.old["metadata"]["resourceVersion"]) == ({"a": "old"}, "50")


async def test_write_of_no_revision_outlasts_many_that_were_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    replica, faster = Lagging(MAPS, stored()), iter(range(100))

    class Contended(Store):
        async def update(self, resource: Any, old: Stored, raw: bytes, held: Mapping[bytes, int]) -> Stored:
            for number in faster:
                raise RevisionConflict(replica.store(stored(str(number))))
            return Stored(old.key, 200, raw)

    change = Change(Target(MAPS, "update", "ns", "c"), USER)
    mutation = replace_mutation(change.target, config("new"), stored_owners)
    written = await path(monkeypatch, Contended(replica)).change(change, mutation)
    assert written.stored.rv == 200


class Ledger:
    """Quotas that count what they are charged."""

    def __init__(self) -> None:
        self.charges = list[tuple[object, ...]]()

    def counts_updates(self, target: Target) -> bool:
        return True

    async def charge(self, target: Target, obj: Object, old: Object, *, dry_run: bool) -> None:
        self.charges.append((at(old, "spec", "type"), at(obj, "spec", "type")))


async def test_write_that_lost_to_others_is_charged_again_only_if_they_changed_its_growth(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else its own charges, which nobody gives back soon, fill the quota."""
    row = TABLE.of("services")
    rows = (service("ClusterIP"), service("ClusterIP"), service("NodePort"))
    replica = Lagging(row, rows[0])
    faster = iter(rows[1:])

    class Contended(Store):
        async def update(self, resource: Any, old: Stored, raw: bytes, held: Mapping[bytes, int]) -> Stored:
            for obj in faster:
                raise RevisionConflict(replica.store(obj))
            return Stored(old.key, 200, raw)

    ledger: Any = Ledger()
    given = Dependencies(cast(Authorizer, None), lambda name: None, quotas=ledger)
    monkeypatch.setattr(admission, "RULES", (admission.Quotas,))
    store = Contended(replica)
    steps = WritePath(cast(Any, store), cast(Any, store.replicas), Admission(given))
    target = Target(row, "patch", "ns", "s")

    def mutate(old: Object) -> Object:
        return {**old, "spec": {**old["spec"], "type": "LoadBalancer"}}

    await steps.change(Change(target, USER), mutate)
    assert ledger.charges == [("ClusterIP", "LoadBalancer"), ("NodePort", "LoadBalancer")]


def service(kind: str) -> Object:
    metadata = {"name": "s", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"type": kind, "ports": [{"port": 80}], "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"]}
    return {"kind": "Service", "apiVersion": "v1", "metadata": metadata, "spec": spec}


async def test_update_without_a_change_is_not_charged_and_rests_on_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(Lagging(MAPS, stored()))
    change = Change(Target(MAPS, "update", "ns", "c"), USER)
    written = await path(monkeypatch, store).change(
        change, replace_mutation(change.target, config("old"), stored_owners)
    )
    assert written.same
    assert store.log == [*BEFORE_STORE[:-1], "get"]


async def test_author_is_checked_before_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may not write an object learns that, not what is wrong with it, nor what it is like."""
    store = Store(Lagging(MAPS, stored()))
    steps, target = path(monkeypatch, store), Target(MAPS, "update", "ns", "c")
    invalid = replace_mutation(target, config("x") | {"metadata": {"name": "c", "finalizers": ["-"]}}, stored_owners)
    with pytest.raises(Invalid):
        await steps.change(Change(target, USER), invalid)
    assert store.log == ["CHECK_AUTHOR", "get", "CHECK_AUTHOR"]
    store.log.clear()
    removal = Target(MAPS, "delete", "ns", "c")
    with pytest.raises(Conflict):
        await steps.change(Change(removal, USER), lambda old: deleted(removal, DeleteOptions(uid="other"), old))
    assert store.log == ["CHECK_AUTHOR", "get", "CHECK_AUTHOR"]


async def test_node_that_may_not_delete_a_pod_learns_nothing_about_its_uid() -> None:
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
    store = Store(Lagging(PODS, {**pod, "spec": {"nodeName": "n2"}}))
    given = Dependencies(cast(Authorizer, None), lambda name: None)
    steps, target = (
        WritePath(cast(Any, store), cast(Any, store.replicas), Admission(given)),
        Target(PODS, "delete", "ns", "p"),
    )
    with pytest.raises(Forbidden, match=r"can only delete pods with spec.nodeName set to itself"):
        await steps.change(Change(target, NODE), lambda old: deleted(target, DeleteOptions(uid="other"), old))


class Asking:
    """A session whose webhooks are asked."""

    asks, warnings = True, ("from a webhook",)


async def test_write_that_webhooks_see_begins_with_the_object_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hooks:
        async def begin(self, change: Change) -> Asking:
            return Asking()

    replica = Lagging(MAPS, stored("older"))
    replica.store(stored("newest"))
    store, seen = Store(replica), list[Object]()
    steps = path(monkeypatch, store)
    steps.admission = Admission(msgspec.structs.replace(steps.admission.given, policies=cast(Any, Hooks())))

    def mutate(old: Object) -> Object:
        seen.append(fresh_copy(old))
        old["data"] = {"a": "new"}
        return old

    written = await steps.change(Change(Target(MAPS, "update", "ns", "c"), USER), mutate)
    assert [each["data"]["a"] for each in seen] == ["newest"]
    assert written.warnings == ["from a webhook"]


async def test_nothing_is_admitted_before_what_may_limit_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated seed 801022 of `workloads`: a process that had just started created pods beyond their quota."""
    monkeypatch.setattr("actors.apiserver.replica.replica.FILL_SECONDS", 0.01)
    replicas = {plural: Replica(TABLE.of(plural)) for plural in NEEDS}
    known = Lookups(replicas, cast(Storage, None)).known(NEEDS)
    admission = Admission(Dependencies(cast(Authorizer, None), lambda name: None, known=known))
    change = Change(Target(PODS, "create", "ns"), USER, operation=CREATE)
    for replica in replicas.values():
        with pytest.raises(TooManyRequests, match="not filled yet"):
            await admission.begin(change)
        replica.on_snapshot([], 7)
    await admission.begin(change)


def claim(*uids: str) -> Object:
    status = {"reservedFor": [{"resource": "pods", "name": "p", "uid": uid} for uid in uids]}
    return {"kind": "ResourceClaim", "metadata": {"name": "c", "namespace": "ns", "uid": "c"}, "status": status}


def claiming_pod() -> Object:
    spec = {"containers": [{"name": "main", "image": "i"}], "resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "namespace": "ns", "uid": "p"}, "spec": spec}


@pytest.mark.parametrize(
    ("shown", "newest", "updates"),
    [
        (("p",), ("p",), 1),
        (("p",), ("p", "other"), 2),
        (("p",), ("other",), 0),
        ((), ("p",), 1),
        ((), (), 1),
    ],
    ids=["reserved", "others join", "lost to a restore", "replica behind", "never reserved"],
)
async def test_pod_is_bound_while_its_claims_stay_reserved_for_it(
    monkeypatch: pytest.MonkeyPatch, shown: tuple[str, ...], newest: tuple[str, ...], updates: int
) -> None:
    pods, claims = Lagging(PODS, claiming_pod()), Lagging(CLAIMS, claim(*shown))
    if newest != shown:
        claims.newest["ns/c"] = Stored("ns/c", 99, msgspec.json.encode(claim(*newest)))
    store = Store(pods, claims)
    binding = {"kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    change = Change(Target(PODS, "create", "ns", "p", "binding"), USER)
    if updates:
        written = await bind(path(monkeypatch, store), change, binding)
        assert written.stored.obj["spec"]["nodeName"] == "n1"
        assert store.log.count("update") == updates
    else:
        with pytest.raises(Conflict):
            await bind(path(monkeypatch, store), change, binding)


@pytest.mark.parametrize(
    ("named", "shown", "bound"),
    [
        ("c", ("p",), True),
        ("c", (), False),
        ("c", ("other",), False),
        ("c,gone", ("p",), False),
        ("x", ("p",), False),
        (",", (), True),
    ],
    ids=["reserved", "not reserved", "reserved for others", "gone", "of an extended resource", "none"],
)
async def test_pod_is_bound_only_if_the_claims_that_the_request_names_are_reserved_for_it(
    monkeypatch: pytest.MonkeyPatch, named: str, shown: tuple[str, ...], bound: bool
) -> None:
    """A backup that was restored before the binding came may have the pod, and not the reservations."""
    store = Store(Lagging(PODS, claiming_pod()), Lagging(CLAIMS, claim(*shown)))
    binding = {"kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
    options = write_options({"reservedClaims": named}, [], "scheduler")
    change = Change(Target(PODS, "create", "ns", "p", "binding"), USER, options)
    if bound:
        assert (await bind(path(monkeypatch, store), change, binding)).stored.obj["spec"]["nodeName"] == "n1"
    else:
        with pytest.raises(Conflict, match="is not reserved for the pod"):
            await bind(path(monkeypatch, store), change, binding)


@pytest.mark.parametrize(
    ("field", "name", "stored"), [("uid", "UID", "p"), ("resourceVersion", "ResourceVersion", "7")]
)
async def test_binding_with_a_precondition_that_the_pod_does_not_meet_is_a_conflict(
    monkeypatch: pytest.MonkeyPatch, field: str, name: str, stored: str
) -> None:
    store = Store(Lagging(PODS, claiming_pod()), Lagging(CLAIMS, claim()))
    binding = {"kind": "Binding", "metadata": {"name": "p", field: "9"}, "target": {"kind": "Node", "name": "n1"}}
    change = Change(Target(PODS, "create", "ns", "p", "binding"), USER)
    with pytest.raises(
        Conflict, match=f"Precondition failed: {name} in precondition: 9, {name} in object meta: {stored}"
    ):
        await bind(path(monkeypatch, store), change, binding)
    assert "update" not in store.log

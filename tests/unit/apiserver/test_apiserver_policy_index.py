"""The index of policies and webhooks: what may match a kind of write, found in a thread when there is much of it."""

import threading
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from actors.apiserver.api.errors import InternalError
from actors.apiserver.api.request.workers import LONG
from actors.apiserver.api.stored import Stored, encode_object
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from actors.apiserver.table import TABLE
from actors.apiserver.writes.admission.policies.index import GROUP, KINDS, Hooks, PolicyIndex
from actors.apiserver.writes.change import CREATE, UPDATE
from protocols.kube.meta import Object

PODS = TABLE.of("pods")
POLICIES, BINDINGS = "validatingadmissionpolicies", "validatingadmissionpolicybindings"


class Held:
    """The objects of one kind; stands in for a replica."""

    def __init__(self) -> None:
        self.objects = Objects()
        self.listeners: list[Callable[[Change], None]] = []

    def listen(self, listener: Callable[[Change], None]) -> None:
        self.listeners.append(listener)

    def put(self, obj: Object, rv: int) -> None:
        name = obj["metadata"]["name"]
        self.objects.held[name] = Stored(name, rv, encode_object(obj))
        self._tell(name)

    def remove(self, name: str) -> None:
        del self.objects.held[name]
        self._tell(name)

    def _tell(self, name: str) -> None:
        for listener in self.listeners:
            listener(cast("Change", type("Told", (), {"key": name})))


class Objects:
    def __init__(self) -> None:
        self.held: dict[str, Stored] = {}

    def __len__(self) -> int:
        return len(self.held)

    def get(self, name: str) -> Stored | None:
        return self.held.get(name)

    def below(self, _prefix: str) -> Iterator[Stored]:
        yield from self.held.values()


class Plane:
    """An index over policies and bindings."""

    def __init__(self) -> None:
        self.kinds = {plural: Held() for plural in KINDS}
        replicas = {f"{plural}.{GROUP}": cast("Replica", held) for plural, held in self.kinds.items()}
        self.index, self._rv = PolicyIndex(replicas, TABLE), 0

    def policy(self, name: str, *rules: Object, padding: int = 0) -> None:
        spec = {"matchConstraints": {"resourceRules": list(rules)}, "validations": [{"expression": "true"}]}
        self.put(POLICIES, {"metadata": {"name": name, "annotations": {"padding": "x" * padding}}, "spec": spec})

    def binding(self, name: str, policy: str, **match: Any) -> None:
        spec = {"policyName": policy, "validationActions": ["Deny"], **({"matchResources": match} if match else {})}
        self.put(BINDINGS, {"metadata": {"name": name}, "spec": spec})

    def put(self, plural: str, obj: Object) -> None:
        self._rv += 1
        self.kinds[plural].put(obj, self._rv)

    async def hooks(self, operation: str = CREATE) -> Hooks | None:
        return await self.index.hooks(PODS, "", operation)


def rule(*resources: str, **more: Any) -> Object:
    return {"apiGroups": [""], "apiVersions": ["v1"], "operations": [CREATE], "resources": list(resources), **more}


async def test_hooks_have_the_bindings_that_may_match_and_names_of_objects() -> None:
    plane = Plane()
    plane.policy("p", rule("services"), rule("pods", resourceNames=["a"]), rule("pods", resourceNames=["b"]))
    plane.binding("all", "p")
    plane.binding("pods", "p", resourceRules=[rule("pods")])
    plane.binding("services", "p", resourceRules=[rule("services")])
    plane.policy("unbound", rule("pods"))
    hooks = await plane.hooks()
    assert hooks is not None
    (hook,) = hooks.validating
    assert hook.match.names == frozenset(("a", "b"))
    assert [(binding.name, match is None) for binding, match in hook.bindings] == [("all", True), ("pods", False)]
    assert await plane.hooks(UPDATE) is None


async def test_exclusion_of_a_whole_kind_leaves_no_hook() -> None:
    plane = Plane()
    plane.policy("p", rule("pods"))
    plane.binding("b", "p", resourceRules=[rule("pods")], excludeResourceRules=[rule("*")])
    assert await plane.hooks() is None


@pytest.mark.parametrize("padding", [0, LONG])
async def test_long_configurations_are_searched_in_a_thread(padding: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plane, threads, find = Plane(), list[bool](), PolicyIndex._find

    def seen(index: PolicyIndex, *where: Any) -> Hooks | None:
        threads.append(threading.current_thread() is not threading.main_thread())
        return find(index, *where)

    monkeypatch.setattr(PolicyIndex, "_find", seen)
    plane.policy("p", rule("pods"), padding=padding)
    plane.binding("b", "p")
    assert await plane.hooks() is await plane.hooks() is not None
    assert threads == [padding > 0]


async def test_change_during_a_search_is_found_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    plane, find = Plane(), PolicyIndex._find
    plane.policy("p", rule("pods"), padding=LONG)
    plane.binding("b", "p")

    def removed_meanwhile(index: PolicyIndex, *where: Any) -> Hooks | None:
        found = find(index, *where)
        if "b" in plane.kinds[BINDINGS].objects.held:
            plane.kinds[BINDINGS].remove("b")
        return found

    monkeypatch.setattr(PolicyIndex, "_find", removed_meanwhile)
    assert await plane.hooks() is not None
    assert await plane.hooks() is None
    assert set(plane.index._parsed) == {(POLICIES, "p")}


async def test_cost_of_a_write_does_not_grow_with_the_rules() -> None:
    plane = Plane()
    plane.policy("p", *(rule(f"r{number}") for number in range(2_000)), *(rule("pods"),) * 2_000)
    plane.binding("b", "p", resourceRules=[rule(f"r{number}") for number in range(2_000)] + [rule("*")] * 2_000)
    hooks = await plane.hooks()
    assert hooks is not None
    (hook,) = hooks.validating
    assert (hook.match.names, hook.match.excluded) == (None, frozenset())


@pytest.mark.parametrize(
    "broken", [{"namespaceSelector": {"matchLabels": {"": 1}}}, {"resourceRules": [{"resources": [5]}]}, 5]
)
async def test_unreadable_policy_rejects_writes_and_is_named(broken: Any) -> None:
    """Others may share the store. The policy may be one that must deny the write."""
    plane = Plane()
    plane.policy("good", rule("pods"))
    plane.binding("b", "good")
    plane.put(POLICIES, {"metadata": {"name": "bad"}, "spec": {"matchConstraints": broken}})
    with pytest.raises(InternalError, match=r'"bad" cannot be read: .*; correct or delete it'):
        await plane.hooks()
    plane.kinds[POLICIES].remove("bad")
    assert await plane.hooks() is not None


async def test_binding_matches_the_write_by_another_version_than_its_policy() -> None:
    plane, slices = Plane(), TABLE.find("resource.k8s.io", "v1", "resourceslices")
    assert slices is not None
    rules = [rule("resourceslices", apiGroups=["resource.k8s.io"], apiVersions=[name]) for name in ("v1beta1", "v1")]
    plane.policy("p", rules[0])
    plane.binding("b", "p", resourceRules=[rules[1]])
    hooks = await plane.index.hooks(slices, "", CREATE)
    assert hooks is not None
    [hook] = hooks.validating
    assert (hook.row.version, [binding.name for binding, _ in hook.bindings]) == ("v1beta1", ["b"])

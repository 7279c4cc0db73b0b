"""Affinity and topology spread from the API's point of view: events, what wakes a pod, who is preempted."""

import asyncio
import random
from collections import Counter
from typing import Any

import pytest

from protocols.kinds.pods.defaults import merge_label_keys
from protocols.kinds.table import NAMESPACES, NODES, PODS
from protocols.kube.meta import Object, condition, meta, terminating
from tests.support.memory_api import MemoryApi
from tests.support.scheduler_life import Life, heard, node_of, put_node, says, the, until

HARD = "requiredDuringSchedulingIgnoredDuringExecution"
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
DB = {"app": "db"}
GONE = "2026-01-01T00:00:00Z"


def nodes(api: MemoryApi, *names: str, zone: str = "", pods: int = 200) -> None:
    for name in names:
        put_node(api, name, {HOST: name, **({ZONE: zone} if zone else {})}, pods)


def put(api: MemoryApi, name: str, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    body = {"containers": [{"name": "c"}], **spec}
    known = api.objects["pods"].get(f"ns/{name}") or {}
    metadata = {"name": name, "namespace": "ns", "labels": labels or {}}
    return api.put(PODS, {"status": {}, **known, "metadata": metadata, "spec": body})


def relabel(api: MemoryApi, name: str, labels: dict[str, str]) -> None:
    pod = the(api, PODS, name)
    api.put(PODS, {**pod, "metadata": {**meta(pod), "labels": labels}})


def rule(kind: str, *terms: Object) -> Object:
    return {"affinity": {kind: {HARD: list(terms)}}}


def term(labels: dict[str, str] | None = None, key: str = HOST, **more: Any) -> Object:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels or DB}, **more}


APART = rule("podAntiAffinity", term())
BESIDE = rule("podAffinity", term())


def spread(key: str = HOST, **more: Any) -> Object:
    selector = {"matchLabels": DB}
    constraint = {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [{**constraint, **more}]}


async def bound(api: MemoryApi, *names: str) -> list[str]:
    await until(f"{names} are bound", lambda: all(node_of(api, name) for name in names))
    return [node_of(api, name) for name in names]


async def waits(api: MemoryApi, name: str, why: str) -> None:
    await until(f"{name} waits", lambda: says(api, name))
    assert says(api, name).startswith(why)
    await heard()
    assert not node_of(api, name)


async def test_anti_affinity_spreads_replicas_and_the_next_waits_for_a_node() -> None:
    api = MemoryApi()
    nodes(api, "n1", "n2", "n3")
    async with asyncio.timeout(60), Life(api):
        for name in "abcd":
            put(api, name, DB, **APART)
        await until("three are bound", lambda: sum(bool(node_of(api, name)) for name in "abcd") == 3)
        (left,) = [name for name in "abcd" if not node_of(api, name)]
        await waits(api, left, "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules.")
        assert "3 No preemption victims found for incoming pod" in says(api, left)
        first = min(set("abcd") - {left})
        where = node_of(api, first)
        api.drop(PODS, first, "ns")
        assert await bound(api, left) == [where]


async def test_anti_affinity_of_a_placed_pod_ends_with_its_label() -> None:
    api = MemoryApi()
    nodes(api, "n1")
    put(api, "a", DB, nodeName="n1")
    async with asyncio.timeout(60), Life(api):
        put(api, "b", **APART)
        await waits(api, "b", "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.")
        relabel(api, "a", {})
        await bound(api, "b")
        put(api, "c", DB)
        await waits(api, "c", "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.")
        relabel(api, "c", {})
        await bound(api, "c")


async def test_anti_affinity_of_a_placed_pod_keeps_the_matched_label_it_was_created_with() -> None:
    api = MemoryApi()
    nodes(api, "n1")
    labels = {**DB, "hash": "1"}
    made = {"metadata": {"labels": labels}, "spec": rule("podAntiAffinity", term(matchLabelKeys=["hash"]))}
    merge_label_keys(made)
    put(api, "a", labels, nodeName="n1", **made["spec"])
    async with asyncio.timeout(60), Life(api):
        put(api, "b", labels)
        await waits(api, "b", "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.")
        relabel(api, "a", {**DB, "hash": "2"})
        put(api, "c", {**DB, "hash": "2"})
        await bound(api, "c")
        await waits(api, "b", "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.")


async def test_affinity_waits_for_a_pod_that_comes() -> None:
    api = MemoryApi()
    nodes(api, "n1", "n2", "n3")
    async with asyncio.timeout(60), Life(api):
        put(api, "a", **BESIDE)
        await waits(api, "a", "0/3 nodes are available: 3 node(s) didn't match pod affinity rules.")
        assert "3 Preemption is not helpful for scheduling" in says(api, "a")
        put(api, "b", DB)
        beside, placed = await bound(api, "a", "b")
        assert beside == placed


async def test_affinity_waits_for_a_pod_of_a_namespace_that_is_labelled() -> None:
    api = MemoryApi()
    nodes(api, "n1")
    api.put(PODS, {"metadata": {"name": "x", "namespace": "other", "labels": DB}, "spec": {"nodeName": "n1"}})
    api.put(NAMESPACES, {"metadata": {"name": "other"}})
    async with asyncio.timeout(60), Life(api):
        put(api, "a", **rule("podAffinity", term(namespaceSelector={"matchLabels": {"team": "x"}})))
        await waits(api, "a", "0/1 nodes are available: 1 node(s) didn't match pod affinity rules.")
        api.put(NAMESPACES, {"metadata": {"name": "other", "labels": {"team": "x"}}})
        await bound(api, "a")


@pytest.mark.parametrize("change", ["placed", "leaves", "terminates", "node gone"])
async def test_spread_waits_for_whatever_levels_the_domains(change: str) -> None:
    api = MemoryApi()
    nodes(api, "n1", zone="east")
    nodes(api, "n2", zone="west", pods=1)
    put(api, "a", DB, nodeName="n1")
    put(api, "full", nodeName="n2")
    async with asyncio.timeout(60), Life(api):
        put(api, "b", DB, **spread(ZONE))
        await waits(api, "b", "0/2 nodes are available: 1 Too many pods, 1 node(s) didn't match pod topology spread")
        match change:
            case "placed":
                put(api, "c", DB, nodeName="n2")
            case "leaves":
                api.drop(PODS, "a", "ns")
            case "terminates":
                pod = the(api, PODS, "a")
                api.put(PODS, {**pod, "metadata": {**meta(pod), "deletionTimestamp": GONE}})
            case "node gone":
                api.drop(NODES, "n2")
        assert await bound(api, "b") == ["n1"]


async def test_spread_reports_nodes_without_the_label() -> None:
    api = MemoryApi()
    nodes(api, "n1", "n2")
    async with asyncio.timeout(60), Life(api):
        put(api, "a", DB, **spread(ZONE))
        text = "node(s) didn't match pod topology spread constraints (missing required label)"
        await waits(api, "a", f"0/2 nodes are available: 2 {text}.")
        assert "2 Preemption is not helpful for scheduling" in says(api, "a")
        put_node(api, "n2", {ZONE: "east"})
        assert await bound(api, "a") == ["n2"]


async def test_preferred_affinity_and_default_spread_choose_the_node() -> None:
    api = MemoryApi()
    nodes(api, *(f"n{at}" for at in range(6)))
    put(api, "a", DB, nodeName="n4")
    soft = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term()}]}
    owner = {"kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}
    async with asyncio.timeout(60), Life(api):
        put(api, "b", affinity={"podAffinity": soft})
        assert await bound(api, "b") == ["n4"]
        replicas = [f"r{at}" for at in range(12)]
        for name in replicas:
            metadata = {"name": name, "namespace": "ns", "ownerReferences": [owner]}
            api.put(PODS, {"metadata": metadata, "spec": {"containers": [{"name": "c"}]}, "status": {}})
        assert set(Counter(await bound(api, *replicas)).values()) == {2}


async def test_pod_with_too_many_terms_is_reported() -> None:
    api = MemoryApi()
    nodes(api, "n1")
    async with asyncio.timeout(60), Life(api):
        put(api, "a", **rule("podAntiAffinity", *[term()] * 65))
        await waits(api, "a", "the pod has 65 pod affinity terms and topology spread constraints, at most 64")


# preemption


def leaving(api: MemoryApi) -> list[str]:
    return sorted(meta(pod)["name"] for pod in api.objects["pods"].values() if terminating(pod))


def preempted(api: MemoryApi, name: str) -> bool:
    return (condition(the(api, PODS, name), "DisruptionTarget") or {}).get("reason") == "PreemptionByScheduler"


@pytest.mark.parametrize(("placed", "incoming"), [({}, APART), (APART, {}), ({}, spread(minDomains=2)), (APART, APART)])
async def test_pod_of_lower_priority_leaves_for_a_rule(placed: Object, incoming: Object) -> None:
    api = MemoryApi()
    nodes(api, "n1")
    put(api, "low", DB, nodeName="n1", **placed)
    put(api, "other", nodeName="n1")
    async with asyncio.timeout(60), Life(api):
        put(api, "high", DB, priority=10, **incoming)
        await until("low leaves", lambda: leaving(api) == ["low"])
        assert preempted(api, "low")
        await heard()
        assert leaving(api) == ["low"], "the other pod is not in the way"
        api.drop(PODS, "low", "ns")
        await bound(api, "high")


async def test_no_pod_leaves_whose_leaving_breaks_affinity() -> None:
    api = MemoryApi()
    nodes(api, "n1", pods=1)
    put(api, "low", DB, nodeName="n1")
    async with asyncio.timeout(60), Life(api):
        put(api, "high", priority=10, **BESIDE)
        await waits(api, "high", "0/1 nodes are available: 1 Too many pods.")
        assert "1 node(s) didn't match pod affinity rules" in says(api, "high")
        assert leaving(api) == []


async def test_room_of_a_nominated_pod_is_kept_by_its_rules() -> None:
    api = MemoryApi()
    nodes(api, "n1")
    put(api, "low", DB, nodeName="n1")
    async with asyncio.timeout(60), Life(api):
        put(api, "high", DB, priority=10, **APART)
        await until("low leaves", lambda: leaving(api) == ["low"])
        put(api, "late", {"app": "db"}, priority=5)
        await waits(api, "late", "0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.")
        api.drop(PODS, "low", "ns")
        await bound(api, "high")
        assert not node_of(api, "late")


# over time


@pytest.mark.parametrize("seed", range(3))
async def test_no_rule_is_ever_broken_and_nobody_waits_in_vain(seed: int) -> None:
    """Pods that come, leave and are relabelled: at rest, whoever waits does so for a reason."""
    api, chance = MemoryApi(seed), random.Random(seed)
    for at in range(5):
        nodes(api, f"n{at}", zone=f"z{at % 2}")
    made = 0
    async with asyncio.timeout(120), Life(api):
        for _ in range(25):
            for _ in range(chance.randint(0, 3)):
                made += 1
                kind = chance.choice([{}, APART, APART, spread(ZONE)])
                put(api, f"p{made}", DB if chance.random() < 0.8 else {}, **kind)
            if api.objects["pods"] and chance.random() < 0.6:
                api.drop(PODS, meta(chance.choice(list(api.objects["pods"].values())))["name"], "ns")
            await heard()
            apart_holds(api)
        await until("all who can are placed", lambda: not in_vain(api), timeout=30)


def apart_holds(api: MemoryApi) -> None:
    for pod in api.objects["pods"].values():
        where = pod["spec"].get("nodeName")
        if where and "affinity" in pod["spec"]:
            here = [each for each in api.objects["pods"].values() if each["spec"].get("nodeName") == where]
            assert [each for each in here if meta(each)["labels"] == DB and each is not pod] == []


def in_vain(api: MemoryApi) -> list[str]:
    """Return pods that wait although a node is free of pods whose rules or labels matter."""
    pods = list(api.objects["pods"].values())
    used = Counter(
        pod["spec"].get("nodeName") for pod in pods if meta(pod)["labels"] == DB or "affinity" in pod["spec"]
    )
    free = [f"n{at}" for at in range(5) if not used[f"n{at}"]]
    waiting = [pod for pod in pods if not pod["spec"].get("nodeName") and "topologySpread" not in str(pod["spec"])]
    return [meta(each)["name"] for each in waiting] if free else []

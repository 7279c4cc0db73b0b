"""ResourceQuotas: the kind, and charges of several API processes at one store."""

import asyncio
from typing import Any

import pytest

from actors.apiserver.api.errors import Conflict, Forbidden
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.stored import Stored, encode_object
from actors.apiserver.replica.objects import Objects
from actors.apiserver.storage.storage import RevisionConflict
from actors.apiserver.writes.admission.quota import QuotaAdmission
from protocols.kinds.core.quotas import QUOTAS
from protocols.kinds.pods.pods import PODS
from protocols.kube.meta import Object

MUST_EXIST = "must be 'Exist' when scope is any of"


def quota(hard: Object, used: Object | None = None, **spec: Any) -> Object:
    used = dict.fromkeys(hard, "0") if used is None else used
    metadata = {"name": "q", "namespace": "ns"}
    return {"metadata": metadata, "spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": used}}


def term(scope: str, operator: str, *values: str) -> Object:
    return {"scopeName": scope, "operator": operator, **({"values": list(values)} if values else {})}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"hard": {"cpu": "1", "pods": "2", "count/jobs.batch": "3", "requests.a.b/gpu": "4"}}, []),
        ({"hard": {"hugepages-2Mi": "2Mi", "gold.storageclass.storage.k8s.io/requests.storage": "1Gi"}}, []),
        (
            {"hard": {"gpus": "1"}},
            [
                ("spec.hard[gpus]", "must be a standard resource type or fully qualified"),
                ("spec.hard[gpus]", "must be a standard resource for quota"),
            ],
        ),
        ({"hard": {"storage": "1"}}, [("spec.hard[storage]", "must be a standard resource for quota")]),
        ({"hard": {"pods": "-1"}}, [("spec.hard[pods]", "must be greater than or equal to 0")]),
        ({"hard": {"pods": "500m"}}, [("spec.hard[pods]", "must be an integer")]),
        ({"hard": {"pods": "1"}, "scopes": ["Never"]}, [("spec.scopes", "unsupported scope")]),
        (
            {"hard": {"services": "1"}, "scopes": ["Terminating"]},
            [("spec.scopes", "unsupported scope applied to resource")],
        ),
        (
            {"hard": {"cpu": "1"}, "scopes": ["BestEffort"]},
            [("spec.scopes", "unsupported scope applied to resource")],
        ),
        (
            {"hard": {"pods": "1"}, "scopes": ["Terminating", "NotTerminating"]},
            [("spec.scopes", "conflicting scopes")],
        ),
        (
            {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [term("PriorityClass", "In")]}},
            [("spec.scopeSelector.matchExpressions.values", "must be at least one value")],
        ),
        (
            {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [term("Terminating", "In", "a")]}},
            [("spec.scopeSelector.matchExpressions.operator", MUST_EXIST)],
        ),
        (
            {"hard": {"requests.storage": "1"}, "scopeSelector": {"matchExpressions": [
                term("VolumeAttributesClass", "In", "fast")]}},
            [],
        ),
    ],
)  # fmt: skip
def test_quota_of_a_spec_has_upstreams_causes(spec: Object, wrong: list[tuple[str, str]]) -> None:
    causes = QUOTAS.strategy.validate_create({"metadata": {"name": "q"}, "spec": spec})
    assert [cause.field for cause in causes] == [field for field, _ in wrong]
    assert all(text in cause.message for cause, (_, text) in zip(causes, wrong, strict=True))


def test_quota_scopes_are_immutable() -> None:
    old, new = quota({"pods": "1"}), quota({"pods": "2"}, scopes=["BestEffort"])
    assert [cause.field for cause in QUOTAS.strategy.validate_update(new, old)] == ["spec.scopes"]


def test_quota_columns_part_limits_from_requests() -> None:
    shown = quota({"pods": "4", "limits.cpu": "2", "requests.cpu": "1"}, {"pods": "1", "requests.cpu": "500m"})
    assert [column.name for column in QUOTAS.columns] == ["Name", "Request", "Limit", "Age"]
    assert [column.cell(shown) for column in QUOTAS.columns[1:3]] == [
        "pods: 1/4, requests.cpu: 500m/1", "limits.cpu: 0/2"
    ]  # fmt: skip


class Store:
    """One quota, with the revisions of a store. Several replicas follow it late."""

    def __init__(self, obj: Object) -> None:
        self.stored = Stored("ns/q", 5, encode_object(obj))
        self.writes = 0

    async def get(self, resource: Any, key: str) -> Stored:
        await asyncio.sleep(0)
        return self.stored

    async def update(self, resource: Any, old: Stored, raw: bytes) -> Stored:
        await asyncio.sleep(0)
        if old.rv != self.stored.rv:
            raise RevisionConflict(self.stored)
        self.stored, self.writes = Stored("ns/q", old.rv + 1, raw), self.writes + 1
        return self.stored


class StaleReplica:
    """What a replica showed at first."""

    def __init__(self, store: Store) -> None:
        self.resource, self.objects = QUOTAS, Objects()
        self.objects.put(store.stored)


def pod(name: str) -> Object:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "resources": {}}]}}


async def test_quota_charged_by_several_processes_never_overshoots() -> None:
    store = Store(quota({"pods": "10"}))
    processes: list[Any] = [QuotaAdmission(store, StaleReplica(store)) for _ in range(3)]  # type: ignore[arg-type]
    target = Target(PODS, "create", "ns")
    charges = [processes[i % 3].charge(target, pod(f"p{i}")) for i in range(60)]
    results = await asyncio.gather(*charges, return_exceptions=True)
    assert results.count(None) == 10
    assert all(isinstance(result, Forbidden) for result in results if result is not None)
    assert store.stored.obj["status"]["used"] == {"pods": "10"}
    assert store.writes < 10, "requests that wait together share a write"


async def test_quota_with_more_requests_than_share_a_write_serves_all() -> None:
    store = Store(quota({"pods": "500"}))
    admission = QuotaAdmission(store, StaleReplica(store))  # type: ignore[arg-type]
    target = Target(PODS, "create", "ns")
    await asyncio.gather(*(admission.charge(target, pod(f"p{i}")) for i in range(250)))
    assert store.stored.obj["status"]["used"] == {"pods": "250"}
    assert store.writes == 3


async def test_quota_that_others_always_change_ends_in_a_conflict() -> None:
    class Contended(Store):
        async def update(self, resource: Any, old: Stored, raw: bytes) -> Stored:
            self.stored = Stored("ns/q", self.stored.rv + 1, self.stored.raw)
            raise RevisionConflict(self.stored)

    store = Contended(quota({"pods": "5"}))
    admission = QuotaAdmission(store, StaleReplica(store))  # type: ignore[arg-type]
    with pytest.raises(Conflict, match='Operation cannot be fulfilled on resourcequotas "q"'):
        await admission.charge(Target(PODS, "create", "ns"), pod("p"))


async def test_quota_of_a_dry_run_is_checked_and_not_charged() -> None:
    store = Store(quota({"pods": "1"}))
    admission = QuotaAdmission(store, StaleReplica(store))  # type: ignore[arg-type]
    target = Target(PODS, "create", "ns")
    await asyncio.gather(*(admission.charge(target, pod(f"p{i}"), dry_run=True) for i in range(3)))
    assert store.writes == 0
    await admission.charge(target, pod("p"))
    with pytest.raises(Forbidden, match='pods "q" is forbidden: exceeded quota: q, requested: pods=1'):
        await admission.charge(target, pod("q"), dry_run=True)


async def test_quota_in_another_namespace_concerns_nothing() -> None:
    store = Store(quota({"pods": "1"}))
    admission = QuotaAdmission(store, StaleReplica(store))  # type: ignore[arg-type]
    assert admission.concerns(Target(PODS, "create", "ns"))
    assert not admission.concerns(Target(PODS, "create", "other"))
    assert not admission.concerns(Target(PODS, "update", "ns", "p", "status"))
    assert admission.counts_updates(Target(PODS, "update", "ns", "p", "resize"))
    assert not admission.counts_updates(Target(PODS, "update", "ns", "p"))

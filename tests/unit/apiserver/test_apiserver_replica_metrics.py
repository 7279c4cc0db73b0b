"""Metrics of replicas: those that hold nothing have their position only."""

from prometheus_client import CollectorRegistry

from actors.apiserver.replica.metrics import ReplicaCollector, ReplicaStatus
from actors.apiserver.replica.replica import Replica
from actors.apiserver.replica.window import Change
from actors.apiserver.table import TABLE


def test_replica_that_holds_nothing_has_its_position_only() -> None:
    empty, used = Replica(TABLE.of("configmaps")), Replica(TABLE.of("pods"))
    used.window.append(Change("default/a", 5, None, None))
    registry = CollectorRegistry()
    registry.register(ReplicaCollector(lambda: [ReplicaStatus(each, 0) for each in (empty, used)]))
    found: dict[str, set[str]] = {"configmaps": set(), "pods": set()}
    for family in registry.collect():
        for sample in family.samples:
            found[sample.labels["resource"]].add(sample.name.removeprefix("nodeplane_replica_"))
    assert found["configmaps"] == {"revision", "behind_revisions", "synced"}
    assert found["pods"] == found["configmaps"] | {"lag", "objects", "window"}

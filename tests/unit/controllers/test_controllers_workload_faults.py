"""Workloads whose pods are rejected: what users see of them, and how they get out of it."""

from typing import Any

import pytest

from protocols.kinds.table import DAEMONSETS, DEPLOYMENTS, PODS, REPLICASETS, Resource
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object, meta
from tests.support.workload_life import WorkloadLife, owned, template, workload


def reject_pods(life: WorkloadLife, monkeypatch: pytest.MonkeyPatch, image: str) -> None:
    """Reject pods of this image, as a quota does."""
    create = life.api.create

    async def rejecting(resource: Resource, obj: Object, *where: Any, **how: Any) -> Object:
        if resource is PODS and obj["spec"]["containers"][0]["image"] == image:
            raise ApiError(403, {"message": "exceeded quota: q", "reason": "Forbidden"})
        return await create(resource, obj, *where, **how)

    monkeypatch.setattr(life.api, "create", rejecting)


async def test_deployment_whose_pods_are_rejected_rolls_out_a_template_that_mends_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With one replica no pod may be unavailable, so the new revision must start beside one that has no pods."""
    life = WorkloadLife(0)
    reject_pods(life, monkeypatch, "a:1")
    life.api.put(DEPLOYMENTS, workload("d", "Deployment", replicas=1, template=template("d")))
    await life.settle(lambda: any(replica_set.get("status") for replica_set in life.objects(REPLICASETS)))
    life.change(DEPLOYMENTS, "d", template=template("d", "2"))
    await life.settle(lambda: [pod.ready for pod in owned(life, "d")] == [True])


async def test_daemon_set_whose_pods_are_rejected_has_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    life = WorkloadLife(0)
    reject_pods(life, monkeypatch, "a:1")
    life.api.put(DAEMONSETS, workload("d", "DaemonSet"))

    def status() -> Object:
        return dict(life.objects(DAEMONSETS)[0].get("status") or {})

    await life.settle(lambda: bool(status().get("observedGeneration")))
    assert (status()["desiredNumberScheduled"], status()["numberUnavailable"]) == (3, 3)
    assert status()["observedGeneration"] == meta(life.objects(DAEMONSETS)[0])["generation"]


@pytest.mark.parametrize(("deadline", "shown"), [(600, True), (None, False)])
async def test_deployment_whose_replica_set_is_rejected_says_so(
    monkeypatch: pytest.MonkeyPatch, deadline: int | None, shown: bool
) -> None:
    async def rejecting(*what: Any, **how: Any) -> Object:
        raise ApiError(403, {"message": "exceeded quota: q", "reason": "Forbidden"})

    life = WorkloadLife(0)
    monkeypatch.setattr(life.api, "create", rejecting)
    life.api.put(DEPLOYMENTS, workload("d", "Deployment", progressDeadlineSeconds=deadline))

    def conditions() -> list[Object]:
        return list((life.objects(DEPLOYMENTS)[0].get("status") or {}).get("conditions") or ())

    await life.settle(lambda: bool(life.events.told) and bool(conditions()) == shown)
    _, reason, message = life.events.told[0]
    assert reason == "ReplicaSetCreateError"
    assert message.startswith('Failed to create new replica set "d-')
    assert message.endswith("exceeded quota: q")
    assert [condition["message"] for condition in conditions()] == [message] * shown

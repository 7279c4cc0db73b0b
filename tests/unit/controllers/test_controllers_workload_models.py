"""Controllers of workloads against simulated nodes: they converge from any history and break no promise on the way."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.controllers.workloads.common import pod_control
from protocols.kinds.table import DAEMONSETS, DEPLOYMENTS, JOBS, NODES, PODS, REPLICASETS
from protocols.kube.meta import meta
from tests.support.workload_life import WorkloadLife, owned, sets, template, workload

SEEDS = st.integers(min_value=0, max_value=2**32)
MANY = settings(max_examples=8, deadline=None)


@pytest.fixture(autouse=True, scope="module")
def overdue() -> Iterator[None]:
    """Look up at once what the informer does not show: the loop's time stands still."""
    was, pod_control.OVERDUE_S = pod_control.OVERDUE_S, 0.0
    yield
    pod_control.OVERDUE_S = was


@given(seed=SEEDS, size=st.integers(0, 6), other=st.integers(0, 6))
@MANY
async def test_replica_set_any_history_has_exactly_its_replicas(seed: int, size: int, other: int) -> None:
    life = WorkloadLife(seed, faults=0.1, kills=0.03)
    life.api.put(REPLICASETS, workload("r", "ReplicaSet", replicas=size))
    most = max(size, other)
    slack = [0]

    def check() -> None:
        slack[0] = max(slack[0], len([pod for pod in owned(life, "r") if pod.active]) - most)
        assert slack[0] <= 0

    life.check = check
    life.end = lambda pod: "Failed" if life.random.random() < 0.05 else ""
    await life.run(120)
    life.change(REPLICASETS, "r", replicas=other)
    await life.run(120)
    life.end = lambda pod: ""
    await life.settle(lambda: len([pod for pod in owned(life, "r") if pod.active and pod.ready]) == other)
    await life.settle(lambda: sets(life)[0]["status"].get("readyReplicas", 0) == other)


@given(seed=SEEDS, size=st.integers(1, 5), surge=st.integers(0, 2), unavailable=st.integers(0, 2), calm=st.booleans())
@MANY
async def test_deployment_rolling_update_stays_between_floor_and_ceiling(
    seed: int, size: int, surge: int, unavailable: int, calm: bool
) -> None:
    """With statuses that lag, a pod that became available in between may be taken for a broken one, as upstream."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    floor = size - min(size, unavailable if surge or unavailable else 1)
    life = WorkloadLife(seed, faults=0.05, kills=0.02)
    life.api.put(DEPLOYMENTS, workload("d", "Deployment", replicas=size, strategy=strategy, revisionHistoryLimit=1))
    await life.settle(lambda: _complete(life, size))
    life._faults, life._kills = (0.0, 0.0) if calm else (0.05, 0.02)
    life.in_step = calm

    def check() -> None:
        assert sum(each["spec"]["replicas"] for each in sets(life)) <= size + surge
        assert len([pod for pod in owned(life, "d") if pod.active]) <= size + surge
        if calm:
            assert len([pod for pod in owned(life, "d") if pod.active and pod.ready]) >= floor

    life.check = check
    for version in ("2", "3", "1"):
        life.change(DEPLOYMENTS, "d", template=template("d", version))
        await life.run(life.random.choice((20, 200)))
    await life.settle(lambda: _complete(life, size))
    running = [each for each in sets(life) if each["spec"]["replicas"]]
    assert [each["spec"]["template"]["spec"]["containers"][0]["image"] for each in running] == ["a:1"]
    assert len(sets(life)) <= 2
    deployment = life.objects(DEPLOYMENTS)[0]
    key = "deployment.kubernetes.io/revision"
    assert meta(deployment)["annotations"][key] == meta(running[0])["annotations"][key]


def _complete(life: WorkloadLife, size: int) -> bool:
    deployment = life.objects(DEPLOYMENTS)[0]
    status = deployment.get("status") or {}
    numbers = [status.get(name) or 0 for name in ("replicas", "updatedReplicas", "availableReplicas")]
    reasons = {condition["type"]: condition["reason"] for condition in status.get("conditions") or ()}
    current = status.get("observedGeneration") == meta(deployment)["generation"]
    progressed = deployment["spec"].get("progressDeadlineSeconds") is None or "Progressing" in reasons
    history = len(sets(life)) <= 1 + deployment["spec"].get("revisionHistoryLimit", 10)
    return current and progressed and history and numbers == [size] * 3 and not _left(life)


def _left(life: WorkloadLife) -> bool:
    return any(pod.deleting or pod.finished for pod in life.pods())


@given(seed=SEEDS)
@MANY
async def test_deployment_recreate_never_mixes_revisions(seed: int) -> None:
    life = WorkloadLife(seed, faults=0.05, kills=0.02)
    life.api.put(DEPLOYMENTS, workload("d", "Deployment", replicas=3, strategy={"type": "Recreate"}))

    def check() -> None:
        hashes = {pod.labels["pod-template-hash"] for pod in owned(life, "d") if not pod.finished}
        assert len(hashes) <= 1

    life.check = check
    for version in ("2", "1"):
        await life.run(150)
        life.change(DEPLOYMENTS, "d", template=template("d", version))
    await life.settle(lambda: _complete(life, 3))


@given(seed=SEEDS, before=st.integers(0, 8), after=st.integers(0, 8))
@MANY
async def test_deployment_scaled_during_a_rollout_converges(seed: int, before: int, after: int) -> None:
    life = WorkloadLife(seed, faults=0.05, kills=0.02)
    life.api.put(DEPLOYMENTS, workload("d", "Deployment", replicas=before, progressDeadlineSeconds=600))
    await life.run(100)
    life.change(DEPLOYMENTS, "d", template=template("d", "2"))
    await life.run(60)
    life.change(DEPLOYMENTS, "d", replicas=after, paused=life.random.random() < 0.5)
    await life.run(60)
    life.change(DEPLOYMENTS, "d", paused=False)
    await life.settle(lambda: _complete(life, after))


@given(seed=SEEDS, surge=st.integers(0, 2), unavailable=st.integers(1, 2))
@MANY
async def test_daemon_set_update_stays_within_its_limits(seed: int, surge: int, unavailable: int) -> None:
    limits = {"maxSurge": surge, "maxUnavailable": 0 if surge else unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": limits}
    life = WorkloadLife(seed, nodes=4)
    life.api.put(DAEMONSETS, workload("d", "DaemonSet", updateStrategy=strategy, revisionHistoryLimit=1))
    await life.settle(lambda: _rolled_out(life, 4))
    life._faults, life._kills = 0.05, 0.02

    def check() -> None:
        pods = [pod for pod in owned(life, "d") if pod.active]
        ready = {pod.target for pod in pods if pod.ready}
        assert len(ready) >= 4 - limits["maxUnavailable"]
        assert len(pods) - len({pod.target for pod in pods}) <= surge

    life.check = check
    for version in ("2", "1"):
        life.change(DAEMONSETS, "d", template=template("d", version))
        await life.run(life.random.choice((20, 200)))
    await life.settle(lambda: _rolled_out(life, 4))
    assert len(life.objects_of("controllerrevisions")) <= 2


def _rolled_out(life: WorkloadLife, nodes: int) -> bool:
    daemon_set = life.objects(DAEMONSETS)[0]
    status = daemon_set.get("status") or {}
    names = ("desiredNumberScheduled", "currentNumberScheduled", "updatedNumberScheduled", "numberAvailable")
    current = status.get("observedGeneration") == meta(daemon_set)["generation"]
    placed = [pod.node for pod in owned(life, "d")]
    return current and [status.get(name) for name in names] == [nodes] * 4 and len(placed) == len(set(placed)) == nodes


@given(seed=SEEDS)
@MANY
async def test_daemon_set_follows_nodes_and_replaces_failed_pods(seed: int) -> None:
    life = WorkloadLife(seed, faults=0.1, kills=0.03)
    life.api.put(DAEMONSETS, workload("d", "DaemonSet"))
    life.end = lambda pod: "Failed" if life.random.random() < 0.05 else ""
    await life.run(100)
    life.node("n0", taints=[{"key": "own", "effect": "NoExecute"}])
    life.node("late")
    await life.run(100)
    life.end = lambda pod: ""
    _make_failures_short(life)
    await life.settle(lambda: _rolled_out(life, 3))
    assert {pod.node for pod in owned(life, "d")} == {"n1", "n2", "late"}
    assert len(life.objects(NODES)) == 4


def _make_failures_short(life: WorkloadLife) -> None:
    """The back-off runs on the loop's time, which stands still here."""
    life.restart()


@given(seed=SEEDS, parallelism=st.integers(1, 4), completions=st.integers(1, 6), indexed=st.booleans())
@MANY
async def test_job_counts_every_pod_once(seed: int, parallelism: int, completions: int, indexed: bool) -> None:
    life = WorkloadLife(seed, faults=0.1, kills=0.04)
    job = workload("j", "Job", parallelism=parallelism, completions=completions, backoffLimit=1000)
    job["spec"]["completionMode"] = "Indexed" if indexed else "NonIndexed"
    life.api.put(JOBS, job)
    ended: dict[str, str] = {}

    def end(pod: object) -> str:
        return life.random.choice(("Succeeded", "Failed", ""))

    def check() -> None:
        for pod in life.pods():
            if pod.finished:
                ended[pod.uid] = pod.phase
        active = [pod for pod in life.pods() if pod.active]
        assert len(active) <= parallelism
        if indexed:
            assert len({pod.index for pod in active}) == len(active)

    life.end, life.check = end, check
    await life.run(250)
    await life.settle(lambda: _finished(life))
    status = life.objects(JOBS)[0]["status"]
    assert status["succeeded"] == completions
    assert (status.get("failed") or 0) == list(ended.values()).count("Failed")
    if not indexed:
        assert list(ended.values()).count("Succeeded") == completions
    assert status.get("uncountedTerminatedPods") in (None, {})
    assert not any(pod.tracked for pod in life.pods())


def _finished(life: WorkloadLife) -> bool:
    conditions = (life.objects(JOBS)[0].get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True" for condition in conditions
    )


@given(seed=SEEDS, limit=st.integers(0, 3))
@MANY
async def test_job_fails_after_its_backoff_limit(seed: int, limit: int) -> None:
    life = WorkloadLife(seed, faults=0.1, kills=0.04)
    life.api.put(JOBS, workload("j", "Job", parallelism=2, completions=4, backoffLimit=limit))
    life.end = lambda pod: "Failed"
    await life.run(200)
    await life.settle(lambda: _finished(life))
    status = life.objects(JOBS)[0]["status"]
    assert [condition["type"] for condition in status["conditions"]] == ["FailureTarget", "Failed"]
    assert status["conditions"][1]["reason"] == "BackoffLimitExceeded"
    assert limit < status["failed"] <= limit + 2
    assert not any(pod.active for pod in life.pods())


@given(seed=SEEDS, limit=st.integers(0, 2), parallelism=st.integers(1, 4), most=st.sampled_from([None, 0, 1]))
@MANY
async def test_job_limits_the_failures_of_each_index(seed: int, limit: int, parallelism: int, most: int | None) -> None:
    """Odd indexes always fail; failures are neither lost nor counted twice, whatever dies."""
    life = WorkloadLife(seed, faults=0.1, kills=0.04)
    job = workload("j", "Job", parallelism=parallelism, completions=5, backoffLimitPerIndex=limit)
    job["spec"] |= {"completionMode": "Indexed", "backoffLimit": 2**31 - 1, "maxFailedIndexes": most}
    life.api.put(JOBS, job)
    life.end = lambda pod: "Failed" if (pod.index or 0) % 2 else "Succeeded"
    failed: dict[str, int] = {}

    def check() -> None:
        failed.update({pod.uid: pod.index or 0 for pod in life.pods() if pod.phase == "Failed"})

    life.check = check
    await life.run(250)
    await life.settle(lambda: _finished(life))
    status = life.objects(JOBS)[0]["status"]
    reason = status["conditions"][-1]["reason"]
    assert all(list(failed.values()).count(index) <= limit + 1 for index in (1, 3))
    if most is None:
        assert status["failed"] == len(failed)
        assert (reason, status["completedIndexes"], status["failedIndexes"]) == ("FailedIndexes", "0,2,4", "1,3")
        assert len(failed) == 2 * (limit + 1)
    elif most == 1:
        assert reason in ("MaxFailedIndexesExceeded", "FailedIndexes")
        assert {"1", "3"} <= set(status["failedIndexes"].split(","))  # and those that were stopped with the Job
    else:
        assert reason == "MaxFailedIndexesExceeded"
        assert {"1", "3"} & set(status["failedIndexes"].split(","))
    assert not any(pod.tracked for pod in life.pods())


@given(seed=SEEDS)
@MANY
async def test_job_suspended_and_resumed_completes(seed: int) -> None:
    life = WorkloadLife(seed, faults=0.05, kills=0.02)
    life.api.put(JOBS, workload("j", "Job", parallelism=2, completions=3))
    life.end = lambda pod: life.random.choice(("Succeeded", "", ""))
    await life.run(60)
    life.change(JOBS, "j", suspend=True)
    await life.settle(lambda: _finished(life) or not [pod for pod in life.pods() if pod.active])
    life.change(JOBS, "j", suspend=False)
    await life.settle(lambda: _finished(life))
    assert life.objects(JOBS)[0]["status"]["succeeded"] == 3


@given(seed=SEEDS, orphan=st.booleans())
@MANY
async def test_pods_of_a_deleted_job_lose_their_finalizer(seed: int, orphan: bool) -> None:
    life = WorkloadLife(seed, faults=0.05, kills=0.02)
    life.api.put(JOBS, workload("j", "Job", parallelism=3, completions=3))
    await life.run(60)
    life.api.drop(JOBS, "j", "default")
    for pod in life.objects(PODS) if orphan else ():
        life.api.put(PODS, {**pod, "metadata": {**meta(pod), "ownerReferences": []}})
    await life.settle(lambda: not any(pod.tracked for pod in life.pods()))

"""The rules of workloads: deletion order, templates, node selection, proportional scaling, jobs' policies."""

from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.controllers.workloads.common.claims import claim
from actors.controllers.workloads.common.conditions import entry, put
from actors.controllers.workloads.common.own_writes import LOST
from actors.controllers.workloads.common.pod_control import Expectations, PodControl
from actors.controllers.workloads.common.pods import JOB_TRACKING, ContainerExit, PodView, pod_view, trim_pod
from actors.controllers.workloads.common.ranking import deletion_order
from actors.controllers.workloads.common.templates import pod_from, same_template, scaled_value, template_hash
from actors.controllers.workloads.daemons.controller import DaemonSetController, FailureBackoff
from actors.controllers.workloads.daemons.nodes import daemon_pod, fit
from actors.controllers.workloads.daemons.plan import Daemons
from actors.controllers.workloads.daemons.revisions import history_of, new_revision, surplus
from actors.controllers.workloads.jobs import controller as jobs_controller
from actors.controllers.workloads.jobs.controller import ORPHAN, JobController, job_pod
from actors.controllers.workloads.jobs.plan import plan as job_plan
from actors.controllers.workloads.jobs.plan import seconds_to_live
from actors.controllers.workloads.jobs.spec import (
    format_indexes,
    job_spec,
    judge,
    managed_elsewhere,
    parse_indexes,
    unsupported,
)
from actors.controllers.workloads.replicas.deployments import new_set, plan
from actors.controllers.workloads.replicas.scaling import roll, scale
from actors.controllers.workloads.replicas.views import Rollout, SetView, number, rollout_of, set_view
from protocols.kinds import views
from protocols.kinds.table import (
    CONTROLLERREVISIONS,
    DAEMONSETS,
    JOBS,
    NODES,
    PODS,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    Resource,
)
from protocols.kube.errors import ApiError
from protocols.kube.meta import Object
from protocols.kube.times import format_time
from tests.support.memory_api import Events, MemoryApi, conflict
from tests.support.workload_life import WorkloadLife, owned, template, workload

NOW = 1_800_000_000.0


def view(name: str, **fields: Any) -> PodView:
    return PodView(name=name, uid=fields.pop("uid", name), **fields)


# pods


def test_deletion_order_follows_upstreams_ranks() -> None:
    def running(name: str, **fields: Any) -> PodView:
        base = {"node": "n", "phase": "Running", "ready": True, "ready_since": NOW - 900, "created": NOW - 900}
        return view(name, **{**base, **fields})

    ordered = [
        view("unbound"),
        view("pending", node="n"),
        running("unready", ready=False),
        running("cheap", cost=-5),
        running("crowded", node="full"),
        running("late", ready_since=NOW - 3),
        running("restarted", most_restarts=(3, 0), restarts=3),
        running("two containers", most_restarts=(2, 4), restarts=6),
        running("sidecar", most_restarts=(2, 3), restarts=9),
        running("young", created=NOW - 3),
        running("old"),
    ]
    related = [*ordered, running("neighbour", node="full")]
    spread = [msgspec.structs.replace(pod, node=f"n{n}") if pod.node == "n" else pod for n, pod in enumerate(ordered)]
    related = [*spread, running("neighbour", node="full")]
    names = [pod.name for pod in deletion_order(reversed(spread), related, NOW)]
    assert names == [pod.name for pod in ordered]


def test_trim_pod_retains_what_a_view_reads() -> None:
    terminated = {"terminated": {"exitCode": 3, "finishedAt": "2026-01-01T00:00:09Z", "reason": "Error"}}
    pod = {
        "metadata": {
            "name": "p", "namespace": "d", "uid": "u", "labels": {"a": "b"}, "managedFields": [1],
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "annotations": {"batch.kubernetes.io/job-completion-index": "4", "other": "x"},
            "ownerReferences": [{"kind": "Job", "name": "j", "uid": "ju", "controller": True}],
        },
        "spec": {
            **daemon_pod(workload("d", "DaemonSet"), "n1", "h")["spec"],
            "initContainers": [{"name": "once"}, {"name": "side", "image": "x", "restartPolicy": "Always"}],
        },
        "status": {
            "initContainerStatuses": [{"name": "once", "restartCount": 9}, {"name": "side", "restartCount": 4}],
            "phase": "Failed", "conditions": [{"type": "Ready", "status": "False", "message": "long"}],
            "containerStatuses": [
                {"name": "a", "restartCount": 2, "image": "x", "state": terminated}, {"name": "b", "restartCount": 1}
            ],
        },
    }  # fmt: skip
    small, whole = pod_view(trim_pod(pod)), pod_view(pod)
    assert (small.restarts, small.most_restarts) == (16, (2, 4))
    assert msgspec.structs.replace(small, obj={}) == msgspec.structs.replace(whole, obj={})
    assert (small.target, small.index, small.tracked, small.exits) == ("n1", 4, True, (ContainerExit("a", 3),))
    assert "managedFields" not in trim_pod(pod)["metadata"]


@given(st.lists(st.sampled_from(["create", "seen", "delete", "gone"]), max_size=20))
def test_expectations_are_met_when_each_is_observed(steps: list[str]) -> None:
    expected, created, deleted = Expectations(), set(), set()
    for at, step in enumerate(steps):
        if step == "create":
            expected.will_create("o", f"p{at}", 0.0)
            created.add(f"p{at}")
        elif step == "delete":
            expected.will_delete("o", f"p{at}", f"u{at}", 0.0)
            deleted.add(f"p{at}")
        elif step == "seen" and created:
            expected.seen("o", created.pop())
        elif step == "gone" and deleted:
            name = deleted.pop()
            expected.gone("o", name, name.replace("p", "u"))
        assert expected.met("o") == (not created and not deleted)


async def test_pod_control_stops_after_a_batch_that_was_rejected() -> None:
    api, events = MemoryApi(), Events()
    control = PodControl(api, events)  # type: ignore[arg-type]  # a fake
    tried: list[str] = []

    def reject(verb: str, resource: Resource, name: str) -> ApiError | None:
        tried.append(name)
        return ApiError(403, {"message": f'pods "{name}" is forbidden: exceeded quota'}) if len(tried) > 1 else None

    api.fault = reject
    owner = workload("a", "ReplicaSet")
    owner["metadata"]["uid"] = "o"
    with pytest.raises(ApiError, match="exceeded quota"):
        await control.create(owner, [pod_from(owner, template("a")) for _ in range(10)])
    assert len(tried) == 3
    texts = {message for _, reason, message in events.told if reason == "FailedCreate"}
    assert texts == {'Error creating: pods "a-" is forbidden: exceeded quota'}
    assert not await control.settled(owner, lambda key: None)


# templates and claims


def test_templates_are_equal_without_hash_and_empty_fields() -> None:
    one, other = template("a"), template("a")
    other["metadata"]["labels"]["pod-template-hash"] = "x"
    other["metadata"] |= {"creationTimestamp": None, "annotations": {}}
    other["spec"]["tolerations"] = []
    assert same_template(one, other)
    assert template_hash(one) == template_hash(other) != template_hash(one, collisions=1)
    assert not same_template(one, template("a", "2"))


def test_new_pods_share_nothing_with_their_template() -> None:
    owner = workload("a", "ReplicaSet")
    pod_from(owner, owner["spec"]["template"])["spec"]["containers"].clear()
    assert owner["spec"]["template"]["spec"]["containers"]


@pytest.mark.parametrize(
    ("value", "up", "down"), [(2, 2, 2), ("25%", 3, 2), ("0%", 0, 0), ("100%", 10, 10), ("x", 0, 0), (None, 0, 0)]
)
def test_scaled_values_round_up_or_down(value: object, up: int, down: int) -> None:
    assert (scaled_value(value, 10, up=True), scaled_value(value, 10, up=False)) == (up, down)


def test_claim_adopts_orphans_and_releases_what_no_longer_matches() -> None:
    owner = workload("a", "ReplicaSet")
    owner["metadata"]["uid"] = "me"

    def pod(name: str, app: str, uid: str = "", **metadata: Any) -> Object:
        references = [{"controller": True, "uid": uid, "kind": "ReplicaSet", "name": "a"}] if uid else []
        return {"metadata": {"name": name, "labels": {"app": app}, "ownerReferences": references, **metadata}}

    found = claim(
        owner,
        [pod("mine", "a", "me"), pod("lost", "b", "me"), pod("orphan", "a"), pod("other", "a", "you"), pod("no", "b"),
         pod("ending", "a", deletionTimestamp="2026-01-01T00:00:00Z")],
        lambda each: each,
    )  # fmt: skip
    names = [[each["metadata"]["name"] for each in group] for group in (found.owned, found.adopt, found.release)]
    assert names == [["mine"], ["orphan"], ["lost"]]


def test_conditions_keep_their_transition_time_while_the_status_is_equal() -> None:
    first = put([], entry("A", "True", "One", "", "t1"))
    assert put(first, entry("A", "True", "One", "", "t2")) == first
    assert put(first, entry("A", "True", "Two", "", "t2"))[0]["lastTransitionTime"] == "t1"
    assert put(first, entry("A", "False", "Two", "", "t2"))[0]["lastTransitionTime"] == "t2"


# daemon sets


def node(name: str = "n", labels: dict[str, str] | None = None, *taints: tuple[str, str]) -> views.Node:
    entries = [{"key": key, "effect": effect} for key, effect in taints]
    return cast("views.Node", {"metadata": {"name": name, "labels": labels or {}}, "spec": {"taints": entries}})


@pytest.mark.parametrize(
    ("spec", "target", "run", "stay"),
    [
        ({}, node(), True, True),
        ({"nodeName": "other"}, node(), False, False),
        ({"nodeSelector": {"a": "b"}}, node(), False, False),
        ({"nodeSelector": {"a": "b"}}, node("n", {"a": "b"}), True, True),
        ({}, node("n", {}, ("own", "NoSchedule")), False, True),
        ({}, node("n", {}, ("own", "NoExecute")), False, False),
        ({}, node("n", {}, ("own", "PreferNoSchedule")), True, True),
        ({"tolerations": [{"operator": "Exists"}]}, node("n", {}, ("own", "NoExecute")), True, True),
        ({}, node("n", {}, ("node.kubernetes.io/unreachable", "NoExecute")), True, True),
        ({}, node("n", {}, ("node.kubernetes.io/unschedulable", "NoSchedule")), True, True),
        ({}, node("n", {}, ("node.kubernetes.io/network-unavailable", "NoSchedule")), False, True),
        ({"hostNetwork": True}, node("n", {}, ("node.kubernetes.io/network-unavailable", "NoSchedule")), True, True),
    ],
)
def test_daemon_pods_fit_nodes_by_name_labels_and_taints(
    spec: Object, target: views.Node, run: bool, stay: bool
) -> None:
    found = fit(target, workload("d", "DaemonSet", template=template("d", **spec)))
    assert (found.run, found.stay) == (run, stay)


def test_daemon_pod_is_pinned_and_keeps_other_affinity() -> None:
    daemon_set = workload("d", "DaemonSet", template=template("d", affinity={"podAffinity": {"x": 1}}))
    daemon_set["metadata"]["annotations"] = {"deprecated.daemonset.template.generation": "7"}
    pod = daemon_pod(daemon_set, "n7", "abc")
    assert pod_view(pod).target == "n7"
    assert pod["spec"]["affinity"]["podAffinity"] == {"x": 1}
    assert pod["metadata"]["labels"] == {"app": "d", "controller-revision-hash": "abc", "pod-template-generation": "7"}


def test_daemon_pod_tolerates_a_lost_node_for_ever_whatever_its_template_says() -> None:
    lost = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    own = {"key": "own", "operator": "Exists", "tolerationSeconds": 9}
    tolerations = [{**lost, "tolerationSeconds": 300}, own]
    found = daemon_pod(workload("d", "DaemonSet", template=template("d", tolerations=tolerations)), "n", "h")["spec"]
    assert [each for each in found["tolerations"] if "tolerationSeconds" in each] == [own]
    assert found["tolerations"].count(lost) == 1


def test_daemon_set_on_delete_updates_nothing_and_failed_pods_wait() -> None:
    daemon_set = workload("d", "DaemonSet", updateStrategy={"type": "OnDelete"})
    fits = {"n": fit(node(), daemon_set)}
    old = view("old", target="n", node="n", ready=True, labels={"controller-revision-hash": "before"})
    daemons = Daemons(daemon_set, "now", fits, [old], NOW)
    assert daemons.repair(lambda name: 0.0).create == []
    assert daemons.update().delete == []
    failed = view("failed", target="n", node="n", phase="Failed")
    daemons = Daemons(daemon_set, "now", fits, [failed], NOW)
    assert daemons.repair(lambda name: 4.0).wait == 4.0
    assert daemons.repair(lambda name: 0.0).delete == [failed]


def test_daemon_pod_that_ended_and_is_held_by_a_finalizer_is_replaced() -> None:
    daemon_set = workload("d", "DaemonSet")
    held = view("held", target="n", node="n", phase="Succeeded", deleting=True)
    daemons = Daemons(daemon_set, "now", {"n": fit(node(), daemon_set)}, [held], NOW)
    assert daemons.repair(lambda name: 0.0).create == ["n"]
    assert daemons.status(observed=True)["currentNumberScheduled"] == 0


def test_failure_backoff_doubles_and_is_forgotten() -> None:
    backoff = FailureBackoff()
    assert backoff.left("d", "n", 0.0) == 0.0
    backoff.replaced("d", "n", 0.0)
    backoff.replaced("d", "n", 1.0)
    assert backoff.left("d", "n", 1.0) == 2.0
    backoff.forget("d")
    assert backoff.left("d", "n", 1.0) == 0.0


def test_failure_backoff_of_a_node_ends_with_the_node() -> None:
    life = WorkloadLife(0)
    controller = cast(DaemonSetController, life.router.controllers["DaemonSet"])
    for name in ("n0", "n1"):
        controller._failures.replaced("d", name, 0.0)
    controller.node_changed(life.follower(NODES).items["n0"], None)
    assert set(controller._failures._known) == {("d", "n1")}


def test_revisions_of_a_template_that_returns_are_numbered_anew() -> None:
    first, second = workload("d", "DaemonSet"), workload("d", "DaemonSet", template=template("d", "2"))
    one, two = new_revision(first, 1), new_revision(second, 2)
    found = history_of(first, [one, two])
    assert (found.current, found.number, found.old) == (one, 3, [two])
    assert history_of(workload("d", "DaemonSet", template=template("d", "3")), [one, two]).current is None
    limited = workload("d", "DaemonSet", revisionHistoryLimit=0)
    assert surplus(limited, [two], []) == [two]
    used = view("p", labels={"controller-revision-hash": two["metadata"]["labels"]["controller-revision-hash"]})
    assert surplus(limited, [two], [used]) == []


# deployments


def test_proportional_scaling_spreads_over_revisions_and_gives_the_rest_to_the_largest() -> None:
    rollout = Rollout(replicas=15, surge=3, unavailable=2)
    old, new = (
        SetView(name="old", replicas=8, desired=10, most=13, created=1.0),
        SetView(name="new", replicas=5, desired=10, most=13, created=2.0),
    )
    assert scale(rollout, new, [old], 13) == {"old": 11, "new": 7}
    assert scale(Rollout(replicas=0, surge=0, unavailable=1), new, [old], 13) == {"old": 0, "new": 0}


def test_revision_taken_back_while_it_shrinks_waits_for_its_surplus() -> None:
    """Pods that are about to be deleted do not allow to remove others; simulated seed 700013 of `workloads`."""
    rollout, old = Rollout(replicas=3, surge=1), SetView(name="old", replicas=3, actual=3, available=3)
    assert roll(rollout, SetView(name="new", replicas=0, actual=1, available=1), [old]) == {}
    assert roll(rollout, SetView(name="new", replicas=0), [old]) == {"new": 1}


def test_rollout_with_neither_surge_nor_unavailable_may_lose_one_pod() -> None:
    update = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}
    assert rollout_of(workload("d", "Deployment", replicas=3, strategy=update)).floor == 2


def test_revision_data_has_the_keys_in_gos_order() -> None:
    daemon_set = workload("DaemonSet", "a")
    data = new_revision(daemon_set, 1)["data"]
    assert msgspec.json.encode(data) == msgspec.json.encode(data, order="sorted")
    assert next(iter(data["spec"]["template"])) == "$patch"


def test_deployment_undone_takes_the_old_replica_set_and_a_new_revision() -> None:
    one, two = workload("d", "Deployment"), workload("d", "Deployment", template=template("d", "2"))
    one["metadata"] |= {"annotations": {"kubernetes.io/change-cause": "undo"}, "uid": "d"}
    made = [set_view(new_set(each, rollout_of(each), number, 1)) for number, each in ((1, one), (2, two))]
    decided = plan(one, made, [], NOW)
    assert (decided.create, decided.revision) == (None, "3")
    notes = decided.changes[0].annotations
    assert notes["deployment.kubernetes.io/revision"] == "3"
    assert notes["deployment.kubernetes.io/revision-history"] == "1"


def test_deployment_without_progress_times_out() -> None:
    deployment = workload("d", "Deployment", replicas=1, progressDeadlineSeconds=10)
    made = new_set(deployment, rollout_of(deployment), 1, 1)
    first = plan(deployment, [set_view(made)], [], NOW)
    assert first.wait == pytest.approx(11.0)
    deployment["status"] = first.status
    late = plan(deployment, [set_view(made)], [], NOW + 60).status or {}
    reasons = {condition["type"]: condition["reason"] for condition in late["conditions"]}
    assert reasons == {"Available": "MinimumReplicasUnavailable", "Progressing": "ProgressDeadlineExceeded"}
    complete = {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
    deployment["status"] = (first.status or {}) | {"updatedReplicas": 1, "replicas": 1, "conditions": [complete]}
    broken = msgspec.structs.replace(set_view(made), actual=1)
    assert plan(deployment, [broken], [], NOW + 60).wait is None
    paused = workload("d", "Deployment", replicas=1, progressDeadlineSeconds=10, paused=True)
    kept = plan(paused, [set_view(made)], [], NOW).status or {}
    assert {condition["reason"] for condition in kept["conditions"]} == {
        "DeploymentPaused",
        "MinimumReplicasUnavailable",
    }


# jobs


@given(st.sets(st.integers(0, 60)))
def test_indexes_are_read_as_they_are_written(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes), 61) == indexes


def test_indexes_are_written_as_upstream_writes_them() -> None:
    assert format_indexes({0, 1, 3, 5, 6, 7}) == "0,1,3,5-7"
    assert parse_indexes("0-9,x,4-2,-1", 4) == {0, 1, 2, 3}


def test_pod_failure_policy_takes_the_first_rule_that_matches() -> None:
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42], "containerName": "main"}},
        {"action": "Count", "onExitCodes": {"operator": "NotIn", "values": [1]}},
    ]
    spec = job_spec(workload("j", "Job", podFailurePolicy={"rules": rules}))
    disrupted = view("p", conditions=(("DisruptionTarget", "True"),), exits=(ContainerExit("main", 42),))
    assert judge(spec, disrupted).action == "Ignore"
    fatal = judge(spec, view("p", exits=(ContainerExit("main", 42),)))
    text = "Container main for pod default/p failed with exit code 42 matching FailJob rule at index 1"
    assert (fatal.action, fatal.message) == ("FailJob", text)
    assert judge(spec, view("p", exits=(ContainerExit("side", 42),))).action == "Count"


def test_job_waits_between_failures_and_stops_at_its_deadline() -> None:
    job = workload("j", "Job", activeDeadlineSeconds=100)
    ended = [view(f"p{n}", phase="Failed", ended=NOW - 5) for n in range(2)]
    decided = job_plan(job, ended, set(), NOW)
    assert (decided.create, decided.wait) == (0, 15.0)
    ignoring = {"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [42]}}]}
    ignored = [view("p", phase="Failed", ended=NOW - 1, exits=(ContainerExit("a", 42),))]
    decided = job_plan(workload("j", "Job", podFailurePolicy=ignoring), ignored, set(), NOW)
    assert (decided.create, decided.wait) == (0, 9.0)
    job["status"] = {"startTime": "2020-01-01T00:00:00Z"}
    late = job_plan(job, [view("p", node="n", phase="Running")], set(), NOW)
    assert late.status["conditions"][0]["reason"] == "DeadlineExceeded"
    assert [pod.name for pod in late.stop] == ["p"]


def test_job_meets_its_success_policy_before_all_indexes_are_done() -> None:
    policy = {"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]}
    job = workload("j", "Job", completions=3, parallelism=3, completionMode="Indexed", successPolicy=policy)
    pods = [view("a", index=1, phase="Succeeded", tracked=True), view("b", index=2, node="n", phase="Running")]
    decided = job_plan(job, pods, set(), NOW)
    assert decided.status["conditions"][0] | {"lastProbeTime": "", "lastTransitionTime": ""} == {
        "type": "SuccessCriteriaMet", "status": "True", "reason": "SuccessPolicy",
        "message": "Matched rules at index 0", "lastProbeTime": "", "lastTransitionTime": "",
    }  # fmt: skip
    assert [pod.name for pod in decided.drop] == ["b"]


@pytest.mark.parametrize(
    ("spec", "succeeded", "condition"),
    [
        ({"completions": 1}, 1, "SuccessCriteriaMet"),
        ({"completions": 0}, 0, "SuccessCriteriaMet"),
        ({"completions": 2}, 1, "Suspended"),
    ],
)
def test_job_with_its_successes_is_complete_although_it_is_suspended(
    spec: Object, succeeded: int, condition: str
) -> None:
    job = workload("j", "Job", suspend=True, **spec) | {"status": {"succeeded": succeeded}}
    assert job_plan(job, [], set(), NOW).status["conditions"][0]["type"] == condition


async def test_job_that_is_suspended_has_its_event_although_a_pod_changed_meanwhile() -> None:
    """The next pass finds the condition written, and has no event."""
    life = WorkloadLife(0)
    life.api.put(JOBS, workload("j", "Job", completions=2, parallelism=1))
    await life.settle(lambda: bool(life.pods()))
    [pod] = life.objects(PODS)
    life.api.put(PODS, {**pod, "status": {"phase": "Succeeded"}})
    life.change(JOBS, "j", suspend=True)
    for follower in life.followers:
        follower.read(follower.behind)
    life.api.fault = lambda verb, resource, name: conflict() if (verb, resource) == ("patch", PODS) else None
    await life.router.controllers["Job"]._step(("Job", "default/j"))
    assert "Suspended" in {reason for _, reason, _ in life.events.told}


def test_failure_of_an_index_that_a_job_has_no_more_does_not_count() -> None:
    job = workload("j", "Job", completions=1, parallelism=1, completionMode="Indexed", backoffLimit=0)
    failed = view("a", index=3, phase="Failed", tracked=True, ended=NOW - 60)
    decided = job_plan(job, [failed], set(), NOW)
    assert (decided.account.total_failed, decided.account.release, decided.indexes) == (0, [failed], [0])


def per_index(**spec: Any) -> Any:
    return workload("j", "Job", completions=3, parallelism=3, completionMode="Indexed", backoffLimitPerIndex=1, **spec)


def test_index_that_failed_runs_again_after_its_own_backoff_with_its_count() -> None:
    ended = view("a", index=0, phase="Failed", ended=NOW - 4, tracked=True)
    waits = job_plan(per_index(), [ended], set(), NOW)
    assert (waits.indexes, waits.wait) == ([1, 2], 6.0)
    assert waits.account.release == [], "its count is known by this pod only"
    again = job_plan(per_index(), [ended], set(), NOW + 6)
    assert again.indexes == [0, 1, 2]
    assert again.failures == {0: (1, 0), 1: (0, 0), 2: (0, 0)}
    notes = job_pod(per_index(), 0, again.failures[0])["metadata"]["annotations"]
    assert notes["batch.kubernetes.io/job-index-failure-count"] == "1"
    assert "batch.kubernetes.io/job-index-ignored-failure-count" not in notes
    running = view("b", index=0, node="n", phase="Running", index_failures=1)
    counted = job_plan(per_index(), [ended, running], set(), NOW + 6)
    assert counted.account.release == [ended]
    last = view("c", index=0, phase="Failed", ended=NOW, index_failures=1, tracked=True)
    over = job_plan(per_index(), [last], set(), NOW)
    assert (over.status["failedIndexes"], over.indexes) == ("0", [1, 2])
    assert over.account.release == [last]


async def test_index_whose_pod_is_one_too_many_does_not_fail() -> None:
    """Indexes failed for good when `parallelism` was lowered, and the Job with them."""
    life = WorkloadLife(0)
    spec = {"parallelism": 3, "completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 0}
    life.api.put(JOBS, workload("j", "Job", **spec))
    await life.settle(lambda: len([pod for pod in life.pods() if pod.ready]) == 3)
    life.change(JOBS, "j", parallelism=1)
    life.follower(JOBS).read(9)
    for _ in range(3):
        await life.router.controllers["Job"]._step(("Job", "default/j"))
        life.follower(PODS).read(9)
        life.follower(JOBS).read(9)
    assert [pod.deleting for pod in life.pods()].count(True) == 2
    life.end = lambda pod: "Succeeded"
    life.change(JOBS, "j", parallelism=3)

    def status() -> Object:
        return dict(life.objects(JOBS)[0]["status"])

    await life.settle(lambda: status().get("completedIndexes") == "0-2")
    assert not status().get("failedIndexes")


def test_failure_policy_ends_an_index_or_ignores_a_failure_of_it() -> None:
    rules = [
        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [42]}},
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
    ]
    job = per_index(podFailurePolicy={"rules": rules}, maxFailedIndexes=0)
    fatal = view("a", index=0, phase="Failed", ended=NOW, exits=(ContainerExit("main", 42),), tracked=True)
    decided = job_plan(job, [fatal], set(), NOW)
    assert (decided.status["failedIndexes"], decided.status["conditions"][0]["reason"]) == (
        "0", "MaxFailedIndexesExceeded",
    )  # fmt: skip
    disrupted = (("DisruptionTarget", "True"),)
    ignored = view("b", index=1, phase="Failed", ended=NOW - 60, conditions=disrupted, tracked=True)
    assert job_plan(job, [ignored], set(), NOW).failures[1] == (0, 1)


@pytest.mark.parametrize("manager", [None, "example.com/jobs"])
async def test_finished_job_expires_after_its_time_to_live(manager: str | None) -> None:
    life = WorkloadLife(0)
    job = workload("j", "Job", ttlSecondsAfterFinished=30, managedBy=manager)
    done = {"type": "Complete", "status": "True", "lastTransitionTime": format_time(life.clock())}
    job["status"] = {"conditions": [done]}
    now = life.clock()
    assert 29.0 <= (seconds_to_live(job, now) or 0.0) <= 31.0
    assert seconds_to_live({**job, "status": {}}, now) is None
    life.api.put(JOBS, job)
    await life.settle(lambda: not life.objects(JOBS))


def test_indexed_pod_knows_its_index() -> None:
    pod = job_pod(workload("j", "Job"), 3)
    assert pod["spec"]["hostname"] == "j-3"
    assert pod["metadata"]["generateName"] == "j-3-"
    assert pod["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]
    assert pod["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"


def test_jobs_of_other_controllers_are_left_alone() -> None:
    assert managed_elsewhere(workload("j", "Job", managedBy="example.com/jobs"))
    assert not managed_elsewhere(workload("j", "Job", managedBy="kubernetes.io/job-controller"))
    assert "100000" in unsupported(workload("j", "Job", completionMode="Indexed", completions=100_001))
    assert unsupported(workload("j", "Job")) == ""


async def test_orphans_are_looked_at_again_when_their_job_is_gone() -> None:
    life = WorkloadLife(0)
    life.api.put(JOBS, workload("j", "Job"))
    await life.settle(lambda: bool(life.pods()))
    controller, (pod,) = life.router.controllers["Job"], life.objects(PODS)
    life.api.put(PODS, {**pod, "metadata": {**pod["metadata"], "ownerReferences": []}})
    for follower in life.followers:
        follower.read(follower.behind)
    life.api.drop(JOBS, "j", "default")
    queued: list[tuple[str, str]] = []
    controller.queue.put = lambda *keys: queued.extend(keys)  # type: ignore[method-assign]  # to see what is put
    for follower in life.followers:
        follower.read(follower.behind)
    assert queued == [(ORPHAN, f"default/{pod['metadata']['name']}")]


async def test_job_counts_finished_pods_that_it_adopts() -> None:
    """They had the finalizer and no Job that removed it, so that their deletion did not end."""
    life = WorkloadLife(0)
    labels = {"name": "orphan", "namespace": "default", "labels": {"app": "j"}, "finalizers": [JOB_TRACKING]}
    orphan = {"metadata": labels, "spec": {"nodeName": "n0"}, "status": {"phase": "Succeeded"}}
    life.api.put(PODS, orphan)
    life.api.put(JOBS, workload("j", "Job", completions=2, manualSelector=True))
    life.end = lambda pod: "Succeeded"
    await life.settle(lambda: life.objects(JOBS)[0].get("status", {}).get("succeeded") == 2)
    await life.settle(lambda: not any(pod.tracked for pod in life.pods()))
    assert len(life.pods()) == 2
    life.api.put(PODS, {**orphan, "metadata": {**labels, "name": "late"}})
    await life.settle(lambda: not any(pod.tracked for pod in life.pods()))
    assert life.objects(JOBS)[0]["status"]["succeeded"] == 2, "a finished Job adopts no more"


async def test_job_releases_only_as_many_pods_in_a_pass_as_it_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that runs on without the finalizer would not be counted."""
    life = WorkloadLife(0)
    life.api.put(JOBS, workload("j", "Job", parallelism=2, manualSelector=True))
    await life.settle(lambda: len(life.pods()) == 2)
    monkeypatch.setattr(jobs_controller, "MOST_AT_ONCE", 1)
    life.change(JOBS, "j", suspend=True)
    life.follower(JOBS).read(9)
    await life.router.controllers["Job"]._step(("Job", "default/j"))
    assert [pod.tracked for pod in life.pods() if not pod.deleting] == [True]


def test_job_without_completions_leaves_pods_that_run_after_its_first_success() -> None:
    running = [view(name, node="n", phase="Running") for name in "bc"]
    job = workload("j", "Job", parallelism=1)
    assert len(job_plan(job, running, set(), NOW).drop) == 1
    succeeded = view("a", phase="Succeeded", tracked=True)
    assert job_plan(job, [succeeded, *running], set(), NOW).drop == []


async def test_replication_controller_has_its_replicas() -> None:
    life = WorkloadLife(0)
    made = workload("r", "ReplicationController", replicas=2, template=template("r"), selector={"app": "r"})
    life.api.put(REPLICATIONCONTROLLERS, {**made, "apiVersion": "v1"})
    await life.settle(lambda: len([pod for pod in owned(life, "r") if pod.ready]) == 2)
    await life.settle(lambda: life.objects(REPLICATIONCONTROLLERS)[0]["status"].get("readyReplicas") == 2)
    assert "terminatingReplicas" not in life.objects(REPLICATIONCONTROLLERS)[0]["status"]
    life.change(REPLICATIONCONTROLLERS, "r", replicas=1)
    await life.settle(lambda: len(owned(life, "r")) == 1)


async def test_replication_controller_reports_pods_that_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    async def rejected(*what: Any, **how: Any) -> Object:
        raise ApiError(403, {"message": "exceeded quota: q", "reason": "Forbidden"})

    life = WorkloadLife(0)
    monkeypatch.setattr(life.api, "create", rejected)
    made = workload("r", "ReplicationController", replicas=1, template=template("r"), selector={"app": "r"})
    life.api.put(REPLICATIONCONTROLLERS, {**made, "apiVersion": "v1"})

    def conditions() -> list[Object]:
        return list(life.objects(REPLICATIONCONTROLLERS)[0].get("status", {}).get("conditions") or ())

    await life.settle(lambda: bool(conditions()))
    [found] = conditions()
    assert (found["type"], found["status"], found["reason"]) == ("ReplicaFailure", "True", "FailedCreate")
    assert "exceeded quota: q" in found["message"]
    monkeypatch.undo()
    await life.settle(lambda: len(owned(life, "r")) == 1 and not conditions())


def test_hostile_numbers_are_bounded() -> None:
    assert len(parse_indexes("0-999999999," + "9" * 5000, 10**9)) == 100_000
    assert number("9" * 5000) is None
    assert number(str(2**63 - 1)) == 2**63 - 1
    assert number(str(2**63)) is None


async def test_object_of_a_wrong_shape_does_not_stop_the_controller(caplog: pytest.LogCaptureFixture) -> None:
    life = WorkloadLife(0)
    life.api.put(REPLICASETS, workload("bad", "ReplicaSet", minReadySeconds="soon"))
    life.api.put(REPLICASETS, workload("good", "ReplicaSet", replicas=1, template=template("good")))
    await life.settle(lambda: bool(owned(life, "good")))
    assert "object is left out kind=ReplicaSet key=default/bad" in caplog.text


@pytest.mark.parametrize(("resource", "kind"), [(REPLICASETS, "ReplicaSet"), (JOBS, "Job")])
async def test_pods_that_are_shown_while_others_are_adopted_are_not_created_again(
    resource: Resource, kind: str
) -> None:
    life = WorkloadLife(0)
    spec = {"parallelism": 2, "manualSelector": True} if resource is JOBS else {"replicas": 2}
    life.api.put(PODS, {"metadata": {"name": "orphan", "namespace": "default", "labels": {"app": "w"}}})
    life.api.put(resource, workload("w", kind, **spec))
    controller, pods = life.router.controllers[kind], life.follower(PODS)
    life.follower(resource).read(1)
    await controller._step((kind, "default/w"))
    pods.read(1)
    life.follower(resource).read(9)

    def show(*_: Any) -> None:
        pods.read(pods.behind)

    life.api.fault = show
    await controller._step((kind, "default/w"))
    assert len(life.pods()) == 3


@pytest.mark.parametrize(("resource", "kind"), [(REPLICASETS, "ReplicaSet"), (JOBS, "Job")])
async def test_pod_that_changed_before_its_adoption_is_adopted_and_not_replaced(resource: Resource, kind: str) -> None:
    life = WorkloadLife(0)
    orphan = {"metadata": {"name": "orphan", "namespace": "default", "labels": {"app": "w"}}, "spec": {}}
    life.api.put(PODS, orphan)
    spec = {"parallelism": 1, "manualSelector": True} if resource is JOBS else {"replicas": 1}
    life.api.put(resource, workload("w", kind, **spec))
    life.follower(PODS).read(1)
    life.follower(resource).read(1)
    life.api.put(PODS, {**orphan, "status": {"phase": "Running"}})
    await life.router.controllers[kind]._step((kind, "default/w"))
    assert [pod.name for pod in life.pods()] == ["orphan"]
    await life.settle(lambda: len(owned(life, "w")) == 1)
    assert [pod.name for pod in life.pods()] == ["orphan"]


async def test_daemon_pods_that_are_shown_while_a_revision_is_created_are_not_created_again() -> None:
    life = WorkloadLife(0)
    life.api.put(DAEMONSETS, workload("d", "DaemonSet"))
    controller, pods = life.router.controllers["DaemonSet"], life.follower(PODS)
    life.follower(DAEMONSETS).read(1)
    await controller._step(("DaemonSet", "default/d"))
    life.change(DAEMONSETS, "d", template=template("d", "2"))
    life.follower(DAEMONSETS).read(9)

    def show(*_: Any) -> None:
        pods.read(pods.behind)

    life.api.fault = show
    await controller._step(("DaemonSet", "default/d"))
    assert len(life.pods()) == 3


async def test_daemon_pods_of_another_revision_of_the_template_stay() -> None:
    """As kube-controller-manager makes one, whose hash of a template is another."""
    life = WorkloadLife(0)
    life.api.put(DAEMONSETS, workload("d", "DaemonSet"))
    await life.settle(lambda: len([pod for pod in life.pods() if pod.ready]) == 3)
    twin = new_revision(life.objects(DAEMONSETS)[0], 2)
    twin["metadata"] |= {"name": "d-other", "labels": {"app": "d", "controller-revision-hash": "other"}}
    life.api.put(CONTROLLERREVISIONS, twin)
    life.follower(CONTROLLERREVISIONS).read(1)
    await life.router.controllers["DaemonSet"]._step(("DaemonSet", "default/d"))
    assert len(life.objects(CONTROLLERREVISIONS)) == 1
    assert {pod.labels["controller-revision-hash"] for pod in life.pods()} == {"other"}
    assert not any(pod.deleting for pod in life.pods())


async def test_workload_that_is_deleted_during_its_pass_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    life = WorkloadLife(0)
    life.api.put(JOBS, workload("j", "Job"))
    controller = cast(JobController, life.router.controllers["Job"])
    life.follower(JOBS).read(1)
    (job,) = life.objects(JOBS)
    controller._own._written["owner"]["default/gone"] = LOST, 0.0
    life.api.fault = lambda *write: controller.on_delete(job)
    await controller._step(("Job", "default/j"))
    assert not controller._released

    async def forgotten(*key: Any) -> Object:
        controller._own.forget("owner")
        raise ApiError(404, {"reason": "NotFound"})

    monkeypatch.setattr(life.api, "get", forgotten)
    assert await controller._own.shown("owner", {})
    assert "owner" not in controller._own._written

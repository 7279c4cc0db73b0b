"""What objects use of quotas, and what quotas allow. Cases are our own, by the rules of kube-apiserver 1.36."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.controllers.policies.in_flight import CREDIT_S, GRACE_S, InFlightCharges, corrected
from protocols.kube.meta import Object
from protocols.kube.quantity import ZERO
from protocols.quota.amounts import ONE, Amounts, exceeded, increase, parsed, texts, total
from protocols.quota.check import Charge, QuotaExceeded, charged
from protocols.quota.evaluators import evaluator_of, resources_of
from protocols.quota.pods import missing, pod_amounts, pod_usage
from protocols.quota.scopes import pod_matches
from protocols.scheduling.requests import pod_requests


def container(name: str = "c", requests: Object | None = None, limits: Object | None = None, **more: Any) -> Object:
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def pod(*containers: Object, status: Object | None = None, metadata: Object | None = None, **spec: Any) -> Object:
    return {
        "metadata": metadata or {"name": "p"},
        "spec": {"containers": list(containers), **spec},
        "status": status or {},
    }


def quota(hard: Object, used: Object | None = None, **spec: Any) -> Object:
    used = dict.fromkeys(hard, "0") if used is None else used
    return {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}, "status": {"hard": hard, "used": used}}


def test_pod_usage_names_each_resource_in_every_form_of_a_quota() -> None:
    requests = {"cpu": "100m", "memory": "1Gi", "hugepages-2Mi": "4Mi", "a.b/gpu": "2"}
    found = texts(pod_usage(pod(container(requests=requests, limits={"cpu": "1"}))))
    assert found == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "100m",
        "requests.cpu": "100m",
        "limits.cpu": "1",
        "memory": "1Gi",
        "requests.memory": "1Gi",
        "hugepages-2Mi": "4Mi",
        "requests.hugepages-2Mi": "4Mi",
        "requests.a.b/gpu": "2",
    }


@pytest.mark.parametrize(
    ("obj", "ended"),
    [
        (pod(status={"phase": "Running"}), False),
        (pod(status={"phase": "Failed"}), True),
        (pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}), True),
        (pod(metadata={"deletionTimestamp": "2100-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}), False),
    ],
)
def test_pod_that_has_ended_counts_as_an_object_only(obj: Object, ended: bool) -> None:
    assert (list(pod_usage(obj)) == ["count/pods"]) is ended


def test_pod_requests_take_the_largest_init_container_sidecars_overhead_and_whole_pod() -> None:
    sidecar = container("s", {"cpu": "1"}, restartPolicy="Always")
    init = container("i", {"cpu": "4", "memory": "1Gi"})
    new = pod(container("a", {"cpu": "1"}), container("b", {"cpu": "1"}), initContainers=[sidecar, init])
    assert texts(pod_amounts(new, "requests")) == {"cpu": "5", "memory": "1Gi"}
    new["spec"]["overhead"] = {"cpu": "250m"}
    assert texts(pod_amounts(new, "requests"))["cpu"] == "5250m"
    assert pod_amounts(new, "limits") == {}
    new["spec"]["resources"] = {"requests": {"cpu": "8"}}
    assert texts(pod_amounts(new, "requests"))["cpu"] == "8250m"


AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "a.b/gpu"]), st.integers(0, 9).map(str), max_size=3)
CONTAINERS = st.lists(AMOUNTS.map(lambda requests: container(requests=requests)), max_size=4)


@given(CONTAINERS, CONTAINERS, st.lists(st.booleans(), min_size=4, max_size=4), AMOUNTS, AMOUNTS)
def test_pod_requests_without_status_equal_those_of_the_scheduler(
    apps: list[Object], inits: list[Object], sidecars: list[bool], overhead: Object, whole: Object
) -> None:
    for init, is_sidecar in zip(inits, sidecars, strict=False):
        init.update({"restartPolicy": "Always"} if is_sidecar else {})
    whole.pop("a.b/gpu", None)  # the API server admits native resources only for the pod as a whole
    new = pod(*apps, initContainers=inits, overhead=overhead, resources={"requests": whole})
    found = {name: amount.nanos for name, amount in pod_amounts(new, "requests").items()}
    assert {**found, "pods": ONE.nanos} == pod_requests(new["spec"])


def test_pod_requests_during_a_resize_are_the_greater_of_both_sizes() -> None:
    status = {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"}}]}
    assert texts(pod_amounts(pod(container(requests={"cpu": "1"}), status=status), "requests")) == {"cpu": "3"}


def test_missing_names_the_containers_that_specify_nothing() -> None:
    new = pod(container("b"), container("a"), initContainers=[container("i", {"cpu": "1"})])
    wanted = ["requests.cpu", "limits.memory", "requests.storage"]
    assert missing(new, wanted) == "must specify limits.memory for: a,b,i; requests.cpu for: a,b"
    new["spec"]["resources"] = {"requests": {"cpu": "1"}, "limits": {"memory": "1"}}
    assert missing(new, wanted) == ""


@pytest.mark.parametrize(
    ("resource", "obj", "used"),
    [
        ("configmaps", {}, {"count/configmaps": "1", "configmaps": "1"}),
        ("leases.coordination.k8s.io", {}, {"count/leases.coordination.k8s.io": "1"}),
        (
            "services",
            {"spec": {"type": "LoadBalancer", "ports": [{}, {"nodePort": 3}], "allocateLoadBalancerNodePorts": False}},
            {"services": "1", "count/services": "1", "services.loadbalancers": "1", "services.nodeports": "1"},
        ),
        (
            "persistentvolumeclaims",
            {"spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "1Gi"}}}},
            {
                "persistentvolumeclaims": "1",
                "count/persistentvolumeclaims": "1",
                "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
                "requests.storage": "1Gi",
                "gold.storageclass.storage.k8s.io/requests.storage": "1Gi",
            },
        ),
        (
            "resourceclaims.resource.k8s.io",
            {
                "spec": {
                    "devices": {
                        "requests": [
                            {"exactly": {"deviceClassName": "gpu", "count": 2}},
                            {"exactly": {"deviceClassName": "nic", "allocationMode": "All"}},
                            {
                                "firstAvailable": [
                                    {"deviceClassName": "gpu", "count": 4},
                                    {"deviceClassName": "gpu", "count": 1},
                                    {"deviceClassName": "nic"},
                                ]
                            },
                        ]
                    }
                }
            },
            {
                "count/resourceclaims.resource.k8s.io": "1",
                "gpu.deviceclass.resource.k8s.io/devices": "6",
                "nic.deviceclass.resource.k8s.io/devices": "33",
            },
        ),
    ],
)
def test_usage_of_a_kind(resource: str, obj: Object, used: Object) -> None:
    assert texts(evaluator_of(resource).usage({"metadata": {"name": "x"}, **obj})) == used


def test_names_of_a_quota_tell_the_resources_to_count() -> None:
    hard = [
        "requests.a.b/gpu",
        "configmaps",
        "count/jobs.batch",
        "requests.storage",
        "x.deviceclass.resource.k8s.io/devices",
    ]
    assert resources_of(hard) == {
        "pods", "configmaps", "jobs.batch", "persistentvolumeclaims", "resourceclaims.resource.k8s.io"
    }  # fmt: skip
    assert resources_of(["count/events", "nonsense"]) == set()


@pytest.mark.parametrize(
    ("term", "matching"),
    [
        ({"scopeName": "Terminating", "operator": "Exists"}, {"deadline"}),
        ({"scopeName": "NotTerminating", "operator": "Exists"}, {"plain", "classy", "affine"}),
        ({"scopeName": "BestEffort", "operator": "Exists"}, {"deadline", "classy", "affine"}),
        ({"scopeName": "NotBestEffort", "operator": "Exists"}, {"plain"}),
        ({"scopeName": "PriorityClass", "operator": "Exists"}, {"classy"}),
        ({"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}, {"classy"}),
        ({"scopeName": "PriorityClass", "operator": "NotIn", "values": ["high"]}, {"plain", "deadline", "affine"}),
        ({"scopeName": "CrossNamespacePodAffinity", "operator": "Exists"}, {"affine"}),
        ({"scopeName": "VolumeAttributesClass", "operator": "Exists"}, set()),
    ],
)
def test_scopes_match_pods_as_upstream(term: Object, matching: set[str]) -> None:
    term_of = {"namespaceSelector": {}, "topologyKey": "k"}
    pods = {
        "plain": pod(container(requests={"cpu": "1"})),
        "deadline": pod(container(), activeDeadlineSeconds=0),
        "classy": pod(container(), priorityClassName="high"),
        "affine": pod(
            container(), affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term_of]}}
        ),
    }
    assert {name for name, obj in pods.items() if pod_matches(term, obj)} == matching


def test_charge_above_a_limit_is_rejected_with_what_is_used() -> None:
    full = quota({"pods": "1", "requests.cpu": "2"}, {"pods": "1", "requests.cpu": "500m"})
    deltas = Charge(evaluator_of("pods"), pod(container(requests={"cpu": "1"}))).deltas([full])
    with pytest.raises(QuotaExceeded, match="exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"):
        charged(full, deltas["q"])


def test_charge_of_a_quota_without_usage_is_rejected() -> None:
    fresh = quota({"pods": "1", "count/pods": "2"}, {"pods": "0"})
    with pytest.raises(QuotaExceeded, match="status unknown for quota: q, resources: count/pods,pods"):
        Charge(evaluator_of("pods"), pod(container())).deltas([fresh])


def test_update_is_charged_its_increase_only() -> None:
    claim: Object = {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}
    old: Object = {"spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    limited = quota({"requests.storage": "4Gi", "persistentvolumeclaims": "1"})
    evaluator = evaluator_of("persistentvolumeclaims")
    assert {k: texts(v) for k, v in Charge(evaluator, claim, old).deltas([limited]).items()} == {
        "q": {"requests.storage": "2Gi"}
    }
    assert Charge(evaluator, old, claim).deltas([limited]) == {}


def test_scoped_quota_ignores_what_has_no_scopes() -> None:
    scoped = quota({"count/configmaps": "0", "pods": "0"}, scopes=["Terminating"])
    assert Charge(evaluator_of("configmaps"), {"metadata": {}}).deltas([scoped]) == {}
    assert Charge(evaluator_of("pods"), pod(container())).deltas([scoped]) == {}


amounts = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "requests.x.y/z"]),
    st.integers(0, 10**6).map(lambda milli: parsed({"v": f"{milli}m"})["v"]),
)


@given(amounts, amounts)
def test_increase_brings_usage_up_to_the_new_one_and_never_down(new: Amounts, old: Amounts) -> None:
    after = total(old, increase(new, old))
    assert all(after[name] == max(amount, new.get(name, ZERO)) for name, amount in old.items())
    assert all(amount > ZERO for amount in increase(new, old).values())


@given(st.lists(amounts, max_size=6), amounts)
def test_charges_never_exceed_a_limit(requests: list[Amounts], limits: Amounts) -> None:
    held = quota(texts(limits))
    granted = []
    for request in requests:
        try:
            held = charged(held, request)
        except QuotaExceeded:
            continue
        granted.append(request)
    used = parsed(held["status"]["used"])
    assert exceeded(used, limits) == []
    sums = total(*granted)
    assert all(used.get(name, ZERO) == sums.get(name, ZERO) for name in limits)


steps = st.lists(
    st.tuples(st.sampled_from(["charge", "store", "fail", "delete", "wait"]), st.integers(0, 4)), max_size=40
)


@given(steps)
def test_recalculated_usage_never_gives_back_what_is_in_flight(history: list[tuple[str, int]]) -> None:
    """Charges, stores and deletions in any order: used covers all objects and charges, and ends exact."""
    book, now, used = InFlightCharges(), 0.0, ZERO
    pending: list[float] = []
    objects = 0
    one = parsed({"pods": "1"})
    for step, number in history:
        match step:
            case "charge":
                used, pending = used + one["pods"], [*pending, now]
                book.charged(one, now)
            case "store" if pending:
                pending.pop(number % len(pending))
                objects += 1
                book.stored(one, now)
            case "fail" if pending:
                pending.pop(number % len(pending))
            case "delete" if objects:
                objects -= 1
            case "wait":
                now += number * GRACE_S / 4
                pending = [at for at in pending if at + GRACE_S > now]
        counted = parsed({"pods": str(objects)})
        used = corrected({"pods": used}, counted, book.outstanding(now))["pods"]
        assert used.value() >= objects + len(pending)
    now += GRACE_S + 1
    assert corrected({"pods": used}, parsed({"pods": str(objects)}), book.outstanding(now))["pods"].value() == objects


def test_object_seen_before_its_charge_settles_it() -> None:
    book, one = InFlightCharges(), parsed({"pods": "1"})
    book.stored(one, 0.0)
    book.charged(one, 1.0)
    assert book.outstanding(1.0) == {}
    book.stored(one, 2.0)
    book.charged(one, 20.0)
    assert texts(book.outstanding(20.0)) == {"pods": "1"}
    assert book.next_expiry() == 20.0 + GRACE_S


def test_memory_of_growth_without_a_charge_is_bounded_by_its_time() -> None:
    book, one = InFlightCharges(), parsed({"pods": "1", "never.charged": "1"})
    for second in range(1000):
        book.stored(one, float(second))
    book.charged(parsed({"pods": "1000"}), 1000.0)
    assert texts(book.outstanding(1000.0)) == {"pods": str(1000 - int(CREDIT_S) + 1)}
    assert sum(map(len, book._credits._held.values())) == int(CREDIT_S)

"""LimitRanges: the kind, and admission by it. Rules and texts are kube-apiserver 1.36's."""

from copy import deepcopy
from typing import Any, cast

import pytest

from actors.apiserver.api.errors import BodyTooLarge, Forbidden, Invalid
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.user import User
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.writes.admission.admission import Admission
from actors.apiserver.writes.admission.limits import ANNOTATION, MOST, check_work, limit_fault, set_defaults
from actors.apiserver.writes.admission.rule import Dependencies, Step
from actors.apiserver.writes.change import Change
from actors.apiserver.writes.update import updated
from protocols.kinds.core.limits import LIMITRANGES
from protocols.kinds.pods.pods import PODS
from protocols.kube.meta import Object


def limit_range(*limits: Object) -> Object:
    return {"metadata": {"name": "l"}, "spec": {"limits": list(limits)}}


def item(kind: str = "Container", **maps: Any) -> Object:
    return {"type": kind, **maps}


def container(name: str = "a", requests: Object | None = None, limits: Object | None = None) -> Object:
    sides = {"requests": requests, "limits": limits}
    return {"name": name, "resources": {side: values for side, values in sides.items() if values}}


def pod(*containers: Object, **spec: Any) -> Object:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}


def test_container_item_defaults_limits_to_max_and_requests_to_limits_then_min() -> None:
    obj = limit_range(item(max={"cpu": "2", "memory": "1Gi"}, min={"cpu": "1", "x.y/z": "1"}, default={"cpu": "1500m"}))
    LIMITRANGES.strategy.default(obj)
    found = obj["spec"]["limits"][0]
    assert found["default"] == {"cpu": "1500m", "memory": "1Gi"}
    assert found["defaultRequest"] == {"cpu": "1500m", "memory": "1Gi", "x.y/z": "1"}


@pytest.mark.parametrize("maps", [{"default": 98}, {"max": 49, "min": 49}, {"maxLimitRequestRatio": 98}])
def test_containers_times_entries_are_bounded(maps: dict[str, int]) -> None:
    parts: dict[str, Any] = {name: {f"x.y/{n}": "1" for n in range(count)} for name, count in maps.items()}
    limits = item(**parts)
    ranges = [limit_range(limits)]
    fits, rest = [container(str(n)) for n in range(MOST // 200)], [container(str(n)) for n in range(MOST // 200)]
    check_work(pod(*fits, initContainers=rest), ranges)
    with pytest.raises(BodyTooLarge, match=f"201 containers and 100 entries of limit ranges are more than {MOST}"):
        check_work(pod(*fits, container("a"), initContainers=rest), ranges)
    check_work(pod(*fits, *rest), [])


def test_pod_item_gets_no_defaults() -> None:
    obj = limit_range(item("Pod", max={"cpu": "2"}))
    LIMITRANGES.strategy.default(obj)
    assert obj["spec"]["limits"] == [item("Pod", max={"cpu": "2"})]


@pytest.mark.parametrize(
    ("limits", "wrong"),
    [
        ([item(max={"cpu": "2"}, min={"cpu": "1"}), item("Pod", max={"memory": "1Gi"})], []),
        ([item(), item()], [("spec.limits[1].type", "Duplicate value")]),
        ([item("Node")], [("spec.limits[0].type", "must be a standard limit type or fully qualified")]),
        ([item("example.com/Node")], []),
        ([item("Pod", default={"cpu": "1"})], [("spec.limits[0].default", "when `type` is 'Pod'")]),
        ([item("PersistentVolumeClaim")], [("spec.limits[0].limits", "either minimum or maximum storage value")]),
        ([item("PersistentVolumeClaim", max={"storage": "1Gi"})], []),
        ([item(max={"storage": "1Gi"})], [("spec.limits[0].max[storage]", "must be a standard resource type")] * 2),
        (
            [item(max={"cpu": "1"}, min={"cpu": "2"})],
            [("spec.limits[0].min[cpu]", "min value 2 is greater than max value 1")],
        ),
        (
            [item(default={"cpu": "1"}, defaultRequest={"cpu": "2"})],
            [("spec.limits[0].defaultRequest[cpu]", "default request value 2 is greater than default limit value 1")],
        ),
        ([item(maxLimitRequestRatio={"cpu": "0.5"})], [("maxLimitRequestRatio[cpu]", "ratio 500m is less than 1")]),
        (
            [item(min={"cpu": "1"}, max={"cpu": "2"}, maxLimitRequestRatio={"cpu": "3"})],
            [("maxLimitRequestRatio[cpu]", "ratio 3 is greater than max/min = 2.000000")],
        ),
        (
            [item(default={"a.b/gpu": "2"}, defaultRequest={"a.b/gpu": "1"})],
            [("defaultRequest[a.b/gpu]", "default value 2 must equal to defaultRequest value 1 in a.b/gpu")],
        ),
    ],
)
def test_limit_range_has_upstreams_causes(limits: list[Object], wrong: list[tuple[str, str]]) -> None:
    causes = LIMITRANGES.strategy.validate_create(limit_range(*limits))
    wrong = wrong[:1] if wrong and "storage]" in wrong[0][0] else wrong
    assert len(causes) == len(wrong)
    for cause, (field, text) in zip(causes, wrong, strict=True):
        assert cause.field.endswith(field)
        assert text in cause.message or "must be a standard" in cause.message


def test_pod_gets_defaults_and_an_annotation_that_lists_them() -> None:
    ranges = [limit_range(item(default={"cpu": "1", "memory": "1Gi"}, defaultRequest={"cpu": "500m"}))]
    new = pod(container("a", {"cpu": "2"}, {"cpu": "2"}), container("b"), initContainers=[container("i")])
    set_defaults(new, ranges)
    a, b = (each["resources"] for each in new["spec"]["containers"])
    assert a == {"requests": {"cpu": "2"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    assert b == {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    assert new["metadata"]["annotations"][ANNOTATION] == (
        "LimitRanger plugin set: memory limit for container a; cpu request for container b; cpu, memory limit for "
        "container b; cpu request for init container i; cpu, memory limit for init container i"
    )


def test_pod_that_lacks_nothing_gets_no_annotation() -> None:
    new = pod(container("a", {"cpu": "2"}, {"cpu": "2"}))
    set_defaults(new, [limit_range(item(default={"cpu": "1"}, defaultRequest={"cpu": "1"}))])
    assert "annotations" not in new["metadata"]


@pytest.mark.parametrize(
    ("limits", "obj", "fault"),
    [
        (item(max={"cpu": "1"}), pod(container(limits={"cpu": "1"})), ""),
        (item(min={"cpu": "1"}), pod(container()), "minimum cpu usage per Container is 1.  No request is specified"),
        (
            item(min={"cpu": "1"}),
            pod(container(requests={"cpu": "500m"})),
            "minimum cpu usage per Container is 1, but request is 500m",
        ),
        (item(max={"cpu": "1"}), pod(container()), "maximum cpu usage per Container is 1.  No limit is specified"),
        (
            item(max={"cpu": "1"}),
            pod(container(requests={"cpu": "2"}, limits={"cpu": "2"})),
            "maximum cpu usage per Container is 1, but limit is 2",
        ),
        (
            item(maxLimitRequestRatio={"cpu": "2"}),
            pod(container(requests={"cpu": "1"}, limits={"cpu": "3"})),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            item(maxLimitRequestRatio={"cpu": "2"}),
            pod(container()),
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
        (
            item("Pod", max={"cpu": "2"}),
            pod(container("a", limits={"cpu": "1"}), container("b", limits={"cpu": "2"})),
            "maximum cpu usage per Pod is 2, but limit is 3",
        ),
        (
            item("Pod", max={"cpu": "2"}),
            pod(container("a", limits={"cpu": "1"}), resources={"limits": {"cpu": "4"}}),
            "maximum cpu usage per Pod is 2, but limit is 4",
        ),
        (
            item(max={"cpu": "1", "memory": "1"}),
            pod(container()),
            "[maximum cpu usage per Container is 1.  No limit is specified, maximum memory usage per Container is 1.  "
            "No limit is specified]",
        ),
    ],
)
def test_pod_outside_the_limits_is_rejected_in_upstreams_words(limits: Object, obj: Object, fault: str) -> None:
    assert limit_fault("pods", obj, [limit_range(limits)]) == fault


def test_pod_limits_count_the_largest_init_container_and_sidecars() -> None:
    sidecar = {**container("s", requests={"cpu": "1"}), "restartPolicy": "Always"}
    new = pod(container(requests={"cpu": "1"}), initContainers=[sidecar, container("i", requests={"cpu": "5"})])
    fault = limit_fault("pods", new, [limit_range(item("Pod", min={"cpu": "7"}))])
    assert fault == "minimum cpu usage per Pod is 7, but request is 6"


def test_claim_outside_the_limits_is_rejected() -> None:
    ranges = [limit_range(item("PersistentVolumeClaim", min={"storage": "1Gi"}, max={"storage": "2Gi"}))]
    assert limit_fault("persistentvolumeclaims", claim("3Gi"), ranges) == (
        "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
    )
    assert limit_fault("persistentvolumeclaims", claim("512Mi"), ranges) == (
        "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 512Mi"
    )
    assert limit_fault("persistentvolumeclaims", claim("1.5Gi"), ranges) == ""


BOUNDS = item(max={"cpu": "2"}, default={"cpu": "1"}, defaultRequest={"cpu": "500m"})


async def resized(old: Object, *limits: Object, cpu: str = "600m") -> Object:
    """Return the pod after its first container requests `cpu`, in a namespace with these limits."""

    new, target = deepcopy(old), Target(PODS, "patch", "ns", "p", "resize")
    new["spec"]["containers"][0].setdefault("resources", {}).setdefault("requests", {})["cpu"] = cpu
    given = Dependencies(
        cast(Authorizer, None), lambda name: None, limit_ranges=lambda namespace: [limit_range(*limits)]
    )
    change = Change(target, User("me"), old=old, new=updated(target, new, deepcopy(old), patching=True))
    for step in (Step.COMPLETE, Step.CHECK_VALID):
        await Admission(given).rules(change).run(step, change)
    return change.sent


def stored(*containers: Object, **metadata: Any) -> Object:
    obj = pod(*({**each, "image": "i"} for each in containers))
    obj |= {"apiVersion": "v1", "kind": "Pod", "status": {"qosClass": "Burstable"}}
    obj["metadata"] |= {"namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 1, **metadata}
    PODS.strategy.default(obj)
    return obj


async def test_resized_pod_gets_the_defaults_that_its_containers_lack_and_no_annotation() -> None:
    new = await resized(stored(container("a", {"cpu": "100m"}), container("b")), BOUNDS)
    assert [each["resources"] for each in new["spec"]["containers"]] == [
        {"requests": {"cpu": "600m"}, "limits": {"cpu": "1"}},
        {"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}},
    ]
    assert "annotations" not in new["metadata"]
    assert new["metadata"]["generation"] == 2


async def test_resize_outside_the_limits_is_rejected() -> None:
    old = stored(container("a", {"cpu": "100m"}, {"cpu": "3"}))
    with pytest.raises(Forbidden, match="maximum cpu usage per Container is 2, but limit is 3"):
        await resized(old, BOUNDS)


async def test_resize_whose_defaults_change_the_qos_class_is_rejected() -> None:
    old = stored(container("a", {"cpu": "100m"}))
    with pytest.raises(Invalid, match="Pod QOS Class may not change"):
        await resized(old, item(default={"cpu": "600m", "memory": "1Gi"}))


async def test_limits_do_not_bind_a_resize_of_a_terminating_pod() -> None:
    new = await resized(
        stored(container("a", {"cpu": "100m"}), deletionTimestamp="2026-01-01T00:00:00Z"), BOUNDS, cpu="3"
    )
    assert new["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "3"}}


def claim(storage: str) -> Object:
    return {"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": storage}}}}


def test_limit_range_prints_its_name_and_creation() -> None:
    assert [column.name for column in LIMITRANGES.columns] == ["Name", "Created At"]


def test_limit_range_without_a_name_gets_one() -> None:
    unnamed: Object = {"metadata": {}, "spec": {}}
    named = limit_range()
    for obj in (unnamed, named):
        LIMITRANGES.strategy.prepare_create(obj)
    assert (len(unnamed["metadata"]["name"]), named["metadata"]["name"]) == (36, "l")

"""The promises of the devices profile, each with commits that keep it and a last one that breaks it."""

from typing import Any

import pytest

from protocols.dra.pods import FINALIZER
from protocols.kube.meta import Object
from tests.simulation.devices.applied import Answer, Applied
from tests.simulation.devices.budgets import GUARDED, Budgets
from tests.simulation.devices.counted import NAME, WISHES, Counted
from tests.simulation.devices.patches import EVICTED, Patches
from tests.simulation.devices.preemption import Preemption
from tests.simulation.devices.rivals import Rivals
from tests.simulation.devices.shared import Shared
from tests.simulation.workloads.flow import Flow
from tests.unit.simulation.test_simulation_workloads import Change, meta, written

DRIVER = "patches.example.com"
RED, BLUE = "red", "blue"


def claim(name: str, *users: str, device: str = "d0", finalizers: tuple[str, ...] = (FINALIZER,)) -> Object:
    result = {"driver": DRIVER, "pool": "patches-n0", "device": device}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [_user(user) for user in users]}
    exactly = {"deviceClassName": "patches"}
    return {
        **meta(name, finalizers=list(finalizers)),
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        "status": status if users else {},
    }


def _user(name: str) -> Object:
    return {"resource": "pods", "name": name, "uid": name}


def pod(name: str, *claims: str, node: str = "n0", priority: int = 0, **status: Any) -> Object:
    entries = [{"name": each, "resourceClaimName": each} for each in claims]
    spec = {"resourceClaims": entries, "priority": priority, **({"nodeName": node} if node else {})}
    return {**meta(name), "spec": spec, "status": status}


def target(reason: str) -> list[Object]:
    return [{"type": "DisruptionTarget", "status": "True", "reason": reason}]


def published(colour: str) -> Object:
    pool = {"name": "patches-n0", "generation": 1, "resourceSliceCount": 1}
    return {
        "spec": {
            "driver": DRIVER,
            "pool": pool,
            "devices": [{"name": "d0", "attributes": {"colour": {"string": colour}}}],
        }
    }


def patch(**changes: Any) -> Object:
    fields = {"creationTimestamp": "2027-01-15T08:00:00Z"}
    return {**meta("p", **fields), "spec": {"devices": {"filter": {"driver": DRIVER}, **changes}}}


def applied(data: dict[str, str], *managers: str) -> Object:
    fields: Object = {"f:data": {f"f:{key}": {} for key in data}}
    return {**meta("o0", managedFields=[{"manager": each, "fieldsV1": fields} for each in managers]), "data": data}


def counted(name: str, device: str, kind: str = "any") -> Object:
    """Return a claim that has a device of the counted flow, as its template asks for."""
    made, wish = claim(name, name), WISHES[kind]
    made["spec"]["devices"]["requests"][0]["exactly"] |= {"capacity": {"requests": {"units": wish.asks}}}
    share = {"shareID": name, "consumedCapacity": {"units": str(wish.consumes)}} if wish.consumes else {}
    result = {"driver": f"{NAME}.example.com", "pool": f"{NAME}-n0", "device": device, **share}
    made["status"]["allocation"]["devices"]["results"] = [result]
    return made


def guarded(obj: Object, labels: dict[str, str]) -> Object:
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


EVICTION = pod("a", "c", conditions=target(EVICTED))
PREEMPTED = target("PreemptionByScheduler")
TAINT = {"key": "broken", "effect": "NoExecute", "timeAdded": "2027-01-15T08:16:00Z"}


@pytest.mark.parametrize(
    ("flow", "promise", "changes"),
    [
        (Patches(), "what is allocated fits", [
            ("resourceslices", "patches-n0-0", published(RED)), ("resourceclaims", "c", claim("c", "a")),
            ("resourceslices", "patches-n0-0", published(BLUE)), ("resourceclaims", "c", claim("c")),
            ("resourceclaims", "c", claim("c", "a")),
        ]),
        (Patches(), "what is allocated fits", [
            ("resourceslices", "patches-n0-0", published(RED)),
            ("resourceslicepatches", "p", patch(taints=[{"key": "worn", "effect": "NoSchedule"}])),
            ("resourceclaims", "c", claim("c", "a")),
        ]),
        (Patches(), "nobody is evicted before the time", [
            ("resourceslices", "patches-n0-0", published(RED)), ("resourceclaims", "c", claim("c", "a")),
            ("pods", "a", pod("a", "c")), ("pods", "a", EVICTION),
        ]),
        (Shared(), "a pod that runs has its claims", [
            ("resourceclaims", "c", claim("c", "b")), ("pods", "a", pod("a", "c")),
        ]),
        (Shared(), "a pod that runs has its claims", [
            ("resourceclaims", "c", claim("c", "a", "b")), ("pods", "a", pod("a", "c")), ("pods", "b", pod("b", "c")),
            ("resourceclaims", "c", claim("c", "b")),
        ]),
        (Shared(), "a device is given once", [
            ("resourceclaims", "c", claim("c", "a", "x")), ("pods", "a", pod("a", "c")), ("pods", "x", pod("x", "c")),
            ("resourceclaims", "d", claim("d", "b")), ("pods", "b", pod("b", "d")),
        ]),
        (Shared(), "an allocated claim stays", [
            ("resourceclaims", "c", claim("c", "a")), ("resourceclaims", "c", claim("c", "a", finalizers=())),
        ]),
        (Preemption(), "victims make room for higher priorities", [
            ("pods", "a", pod("a", priority=1)), ("pods", "b", pod("b", node="", priority=1, nominatedNodeName="n0")),
            ("pods", "a", pod("a", priority=1, conditions=PREEMPTED)),
        ]),
        (Preemption(), "a node has room for its pods", [("pods", name, pod(name)) for name in "abc"]),
        (Rivals(), "a device is given once", [
            ("resourceclaims", "c", claim("c", "a")), ("pods", "a", pod("a", "c")),
            ("resourceclaims", "d", claim("d", "b")), ("pods", "b", pod("b", "d")),
        ]),
        (Counted(), "no counter is overdrawn", [
            ("resourceclaims", "c", counted("c", "whole")), ("resourceclaims", "d", counted("d", "bit-0")),
        ]),
        (Counted(), "no capacity is overdrawn", [
            ("resourceclaims", name, counted(name, "all", kind))
            for name, kind in (("c", "two"), ("d", "default"), ("e", "one"))
        ]),
        (Budgets(), "guarded pods are the last victims", [
            *(("pods", name, guarded(pod(name), labels)) for name, labels in (("a", GUARDED), ("b", {}))),
            *(("configmaps", f"later-{number}", {}) for number in range(6)),
            ("pods", "c", guarded(pod("c", node="", priority=1, nominatedNodeName="n0"), {})),
            ("pods", "a", guarded(pod("a", conditions=PREEMPTED), GUARDED)),
        ]),
        (Applied(), "each field has an owner", [
            ("configmaps", "o0", applied({"k": "v"}, "x")), ("configmaps", "o0", applied({"k": "v"})),
        ]),
        (Applied(), "who changes a field owns it", [
            ("configmaps", "o0", applied({"k": "v"}, "x", "y")), ("configmaps", "o0", applied({"k": "w"}, "x", "y")),
        ]),
    ],
)  # fmt: skip
def test_last_commit_breaks_a_promise(flow: Flow, promise: str, changes: list[Change]) -> None:
    kept = [broken.promise for broken in flow.check(written(changes[:-1], flow.name))]
    assert promise not in kept
    assert promise in [broken.promise for broken in flow.check(written(changes, flow.name))]


def test_pod_with_a_broken_device_may_be_evicted() -> None:
    changes: list[Change] = [
        ("resourceslices", "patches-n0-0", published(RED)),
        ("resourceclaims", "c", claim("c", "a")),
        ("pods", "a", pod("a", "c")),
        ("resourceslicepatches", "p", patch(taints=[TAINT])),
        ("pods", "a", EVICTION),
    ]
    assert "nobody is evicted before the time" not in [
        each.promise for each in Patches().check(written(changes, "patches"))
    ]


def test_apply_that_took_a_field_without_force_lost_a_conflict() -> None:
    flow = Applied()
    flow.answers[2] = [Answer("y", "o0", {"k": "w"}, False)]
    changes: list[Change] = [
        ("configmaps", "o0", applied({"k": "v"}, "x")),
        ("configmaps", "o0", applied({"k": "w"}, "y")),
    ]
    assert [each.promise for each in flow.check(written(changes, "applied"))] == ["no conflict is lost"]

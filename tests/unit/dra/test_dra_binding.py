"""Binding conditions of a claim's devices: ready, waiting or failed, over all states of conditions and times."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from protocols.dra.binding import FAILED, READY, WAITING, BindingVerdict, has_binding_conditions, verdict
from protocols.kinds import views
from protocols.kube.meta import Object
from protocols.kube.times import format_time

NOW = 1_800_000_000.0
WANTED, FAILING = ("example.com/attached", "example.com/flashed"), ("example.com/failed",)


def result(device: str = "d0", share: str = "", binding: bool = True) -> Object:
    conditions = {"bindingConditions": list(WANTED), "bindingFailureConditions": list(FAILING)} if binding else {}
    shared = {"shareID": share} if share else {}
    return {"request": "r", "driver": "d", "pool": "p", "device": device, **conditions, **shared}


def status(device: str = "d0", share: str = "", **conditions: str) -> Object:
    """`attached="True"` and so on."""
    shared = {"shareID": share} if share else {}
    found = [{"type": f"example.com/{name}", "status": value} for name, value in conditions.items()]
    return {"driver": "d", "pool": "p", "device": device, "conditions": found, **shared}


def claim(*results: Object, devices: Any = (), age: float | None = 0.0) -> views.ResourceClaim:
    stamp = {} if age is None else {"allocationTimestamp": format_time(NOW - age)}
    allocation = {"allocation": {"devices": {"results": list(results)}, **stamp}} if results else {}
    status: Any = {**allocation, "devices": list(devices)}
    return {"metadata": {"name": "c"}, "status": status}


def judged(obj: views.ResourceClaim) -> BindingVerdict:
    return verdict(obj, NOW, 600)


def test_claim_without_conditions_is_ready_at_once() -> None:
    plain = claim(result(binding=False), age=9999)
    assert not has_binding_conditions(plain)
    assert judged(plain) == BindingVerdict(READY)


def test_all_conditions_of_all_devices_must_be_true() -> None:
    first, second = result("d0"), result("d1")
    done = {"attached": "True", "flashed": "True"}
    assert judged(claim(first)).state == WAITING
    assert judged(claim(first, devices=[status(attached="True")])).state == WAITING
    assert judged(claim(first, devices=[status(attached="True", flashed="False")])).state == WAITING
    assert judged(claim(first, second, devices=[status(**done)])).state == WAITING
    assert judged(claim(first, second, devices=[status(**done), status("d1", **done)])).state == READY


def test_failure_is_found_before_unmet_conditions_of_other_devices() -> None:
    failed = status("d1", failed="True")
    failed["conditions"][0] |= {"reason": "Broken", "message": "no link"}
    found = judged(claim(result("d0"), result("d1"), devices=[failed]))
    assert found == BindingVerdict(FAILED, 'claim c binding failed: reason=Broken, message="no link"')
    assert judged(claim(result(), devices=[status(failed="False", attached="True", flashed="True")])).state == READY


def test_time_is_up_only_for_what_is_not_ready() -> None:
    assert judged(claim(result(), age=599)) == BindingVerdict(WAITING, "", NOW + 1)
    assert judged(claim(result(), age=600)) == BindingVerdict(FAILED, "claim c binding timeout")
    assert judged(claim(result(), devices=[status(attached="True", flashed="True")], age=6000)).state == READY
    assert judged(claim(result(), age=None)) == BindingVerdict(WAITING, "", None)
    broken = claim(result())
    broken["status"]["allocation"]["allocationTimestamp"] = "yesterday"
    assert judged(broken) == BindingVerdict(WAITING, "", None)


def test_shares_of_one_device_are_told_apart() -> None:
    two = (result(share="a"), result(share="b"))
    done = {"attached": "True", "flashed": "True"}
    assert judged(claim(*two, devices=[status(share="a", **done)])).state == WAITING
    assert judged(claim(*two, devices=[status(share="a", **done), status(share="b", **done)])).state == READY


CONDITION = st.sampled_from(["True", "False", "Unknown", None])
DEVICE = st.fixed_dictionaries(
    {"attached": CONDITION, "flashed": CONDITION, "failed": CONDITION, "binding": st.booleans()}
)


@given(st.lists(DEVICE, min_size=1, max_size=4), st.integers(0, 1200))
def test_verdict_follows_from_conditions_and_age_alone(devices: list[dict[str, Any]], age: int) -> None:
    names = [f"d{at}" for at in range(len(devices))]
    results = [result(name, binding=each["binding"]) for name, each in zip(names, devices, strict=True)]
    given_ = [{key: device[key] for key in ("attached", "flashed", "failed") if device[key]} for device in devices]
    statuses = [status(name, **each) for name, each in zip(names, given_, strict=True)]
    found = judged(claim(*results, devices=statuses, age=age))
    bound = [device for device in devices if device["binding"]]
    failed = any(each["failed"] == "True" for each in bound)
    ready = all(each["attached"] == each["flashed"] == "True" for each in bound)
    want = FAILED if failed else READY if ready else FAILED if age >= 600 else WAITING
    assert found.state == want
    assert bool(found.text) == (want == FAILED)
    assert has_binding_conditions(claim(*results)) == bool(bound)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)


@given(JSON, JSON, JSON, JSON)
def test_wrong_shapes_of_another_server_are_left_out(one: Any, two: Any, three: Any, four: Any) -> None:
    odd = {**result(), "bindingConditions": one, "bindingFailureConditions": two}
    found: Any = claim(odd, devices=[])
    found["status"]["devices"] = [{**status(), "conditions": three}] if one else three
    found["status"]["allocation"]["allocationTimestamp"] = four
    has_binding_conditions(found)
    assert judged(found).state in (READY, WAITING, FAILED)

"""What namespaces and silent nodes need: decided without a server, done against a small one."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.controllers.common.workqueue import MOST_S, Retries
from actors.controllers.lifecycle.namespaces import (
    ROOT_CA,
    WANTED,
    Create,
    Patch,
    contents,
    ends,
    finalized,
    missing_namespaces,
)
from actors.controllers.lifecycle.nodes import GRACE_S, Leases, unknown_patch
from protocols.kube.patch_merge import apply_merge_patch
from protocols.kube.patch_strategic import apply_strategic_patch


def namespace(name: str = "a", finalizers: list[str] | None = None, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}, "spec": {"finalizers": finalizers or []}}


def test_the_four_namespaces_exist() -> None:
    assert [step.obj["metadata"]["name"] for step in missing_namespaces([])] == list(WANTED)
    assert missing_namespaces([*WANTED, "mine"]) == []


def test_each_namespace_gets_an_account_and_the_ca() -> None:
    steps = contents("a", "PEM", {}, {})
    assert [(step.resource.plural, step.namespace) for step in steps] == [("serviceaccounts", "a"), ("configmaps", "a")]


@given(st.booleans(), st.sampled_from([None, {"ca.crt": "PEM"}, {"ca.crt": "OLD"}, {}]))
def test_carrying_the_steps_out_leaves_nothing_to_do(account: bool, data: dict[str, str] | None) -> None:
    accounts: dict[str, Any] = {"a/default": {}} if account else {}
    roots: dict[str, Any] = {} if data is None else {f"a/{ROOT_CA}": {"data": data}}
    for step in contents("a", "PEM", accounts, roots):
        kept = accounts if step.resource.plural == "serviceaccounts" else roots
        if isinstance(step, Create):
            kept[f"a/{step.obj['metadata']['name']}"] = step.obj
        elif isinstance(step, Patch):
            kept[f"a/{step.name}"] = apply_merge_patch(kept[f"a/{step.name}"], step.body)
    assert contents("a", "PEM", accounts, roots) == []


def test_only_a_deleted_namespace_that_we_hold_ends() -> None:
    assert ends(namespace(finalizers=["kubernetes"], deletionTimestamp="t"))
    assert not ends(namespace(finalizers=["kubernetes"]))
    assert not ends(namespace(finalizers=["other"], deletionTimestamp="t"))
    assert not ends({"metadata": {"deletionTimestamp": "t"}})


def test_finalizing_takes_only_our_own_finalizer() -> None:
    held = namespace(finalizers=["other", "kubernetes"], deletionTimestamp="t")
    assert finalized(held)["spec"]["finalizers"] == ["other"]
    assert held["spec"]["finalizers"] == ["other", "kubernetes"]


def test_a_node_is_lost_when_no_renewal_was_seen_for_the_grace_period() -> None:
    leases = Leases()
    leases.known("n1", 0.0)
    assert leases.lost(GRACE_S - 1) == []
    leases.renewed("n1", "t1", 30.0)
    assert leases.lost(GRACE_S + 1) == []
    leases.renewed("n1", "t1", 60.0)
    assert leases.lost(30.0 + GRACE_S) == ["n1"], "the same renewal again is no renewal"
    leases.renewed("n1", "t2", 71.0)
    assert leases.lost(80.0) == []
    leases.forget("n1")
    assert leases.lost(1000.0) == []


@given(st.lists(st.tuples(st.floats(0, 20), st.booleans()), max_size=50))
def test_whoever_renews_in_time_is_never_lost(course: list[tuple[float, bool]]) -> None:
    leases, now = Leases(), 0.0
    leases.known("n1", now)
    for number, (pause, twice) in enumerate(course):
        now += pause
        assert leases.lost(now) == []
        leases.renewed("n1", str(number), now)
        if twice:
            leases.renewed("n1", str(number), now)


def test_a_lost_node_is_marked_once() -> None:
    node = {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "MemoryPressure"}]}}
    patch = unknown_patch(node)
    assert patch is not None
    marked = apply_strategic_patch("Node", node, patch)
    assert [entry["type"] for entry in marked["status"]["conditions"]] == ["Ready", "MemoryPressure"]
    assert marked["status"]["conditions"][0]["status"] == "Unknown"
    assert unknown_patch(marked) is None


def test_retries_wait_longer_each_time_until_done() -> None:
    retries = Retries()
    waits = [retries.failed("a") for _ in range(7)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (0.5, MOST_S)
    retries.done("a")
    assert retries.failed("a") == 0.5

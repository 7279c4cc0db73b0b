"""Namespace content, node leases and retry backoff of the controllers."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.writes.patches.json_patch import apply_merge_patch
from actors.apiserver.writes.patches.strategic import apply_strategic_patch
from actors.controllers.common.workqueue import MAX_DELAY_S, RetryBackoff
from actors.controllers.lifecycle.namespaces import (
    ROOT_CA,
    SYSTEM_NAMESPACES,
    Create,
    Patch,
    finalized,
    is_ending,
    missing_namespaces,
    namespace_content_steps,
)
from actors.controllers.lifecycle.nodes import GRACE_S, NodeLeases, unknown_patch


def namespace(name: str = "a", finalizers: list[str] | None = None, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}, "spec": {"finalizers": finalizers or []}}


def test_missing_system_namespaces_are_created() -> None:
    assert [step.obj["metadata"]["name"] for step in missing_namespaces([])] == list(SYSTEM_NAMESPACES)
    assert missing_namespaces([*SYSTEM_NAMESPACES, "mine"]) == []


def test_new_namespace_gets_service_account_and_ca() -> None:
    steps = namespace_content_steps("a", "PEM", {}, {})
    assert [(step.resource.plural, step.namespace) for step in steps] == [("serviceaccounts", "a"), ("configmaps", "a")]


@given(st.booleans(), st.sampled_from([None, {"ca.crt": "PEM"}, {"ca.crt": "OLD"}, {}]))
def test_applied_content_steps_leave_nothing_to_do(account: bool, data: dict[str, str] | None) -> None:
    accounts: dict[str, Any] = {"a/default": {}} if account else {}
    roots: dict[str, Any] = {} if data is None else {f"a/{ROOT_CA}": {"data": data}}
    for step in namespace_content_steps("a", "PEM", accounts, roots):
        kept = accounts if step.resource.plural == "serviceaccounts" else roots
        if isinstance(step, Create):
            kept[f"a/{step.obj['metadata']['name']}"] = step.obj
        elif isinstance(step, Patch):
            kept[f"a/{step.name}"] = apply_merge_patch(kept[f"a/{step.name}"], step.body)
    assert namespace_content_steps("a", "PEM", accounts, roots) == []


def test_namespace_is_ending_when_deleted_with_our_finalizer() -> None:
    assert is_ending(namespace(finalizers=["kubernetes"], deletionTimestamp="t"))
    assert not is_ending(namespace(finalizers=["kubernetes"]))
    assert not is_ending(namespace(finalizers=["other"], deletionTimestamp="t"))
    assert not is_ending({"metadata": {"deletionTimestamp": "t"}})


def test_finalized_removes_only_our_finalizer() -> None:
    held = namespace(finalizers=["other", "kubernetes"], deletionTimestamp="t")
    assert finalized(held)["spec"]["finalizers"] == ["other"]
    assert held["spec"]["finalizers"] == ["other", "kubernetes"]


def test_node_is_lost_without_renewal_for_grace_period() -> None:
    leases = NodeLeases()
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
def test_node_that_renews_in_time_is_never_lost(course: list[tuple[float, bool]]) -> None:
    leases, now = NodeLeases(), 0.0
    leases.known("n1", now)
    for number, (pause, twice) in enumerate(course):
        now += pause
        assert leases.lost(now) == []
        leases.renewed("n1", str(number), now)
        if twice:
            leases.renewed("n1", str(number), now)


def test_unknown_patch_is_written_once() -> None:
    node = {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "MemoryPressure"}]}}
    patch = unknown_patch(node)
    assert patch is not None
    marked = apply_strategic_patch("Node", node, patch)
    assert [entry["type"] for entry in marked["status"]["conditions"]] == ["Ready", "MemoryPressure"]
    assert marked["status"]["conditions"][0]["status"] == "Unknown"
    assert unknown_patch(marked) is None


def test_retry_backoff_grows_until_done() -> None:
    retries = RetryBackoff()
    waits = [retries.failed("a") for _ in range(7)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (0.5, MAX_DELAY_S)
    retries.done("a")
    assert retries.failed("a") == 0.5

"""Namespace content, node leases, retry backoff and event handlers of the controllers."""

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.controllers.common.informers import ChangeHandler, FanOut
from actors.controllers.lifecycle.namespace_content import (
    CONTENT,
    FAILURE,
    FINALIZERS,
    FINE,
    Remaining,
    ending_conditions,
)
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
from protocols.kinds.patches.json_patch import apply_merge_patch
from protocols.kinds.table import CONFIGMAPS, PODS
from protocols.kubeclient.workqueue import MAX_DELAY_S, RetryBackoff


def namespace(name: str = "a", finalizers: list[str] | None = None, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}, "spec": {"finalizers": finalizers or []}}


def test_missing_system_namespaces_are_created() -> None:
    assert [step.obj["metadata"]["name"] for step in missing_namespaces([])] == list(SYSTEM_NAMESPACES)
    assert missing_namespaces([*SYSTEM_NAMESPACES, "mine"]) == []


def test_new_namespace_gets_service_account_and_ca() -> None:
    steps = namespace_content_steps("a", "PEM", {}, {})
    assert [(step.resource.plural, step.namespace) for step in steps] == [("serviceaccounts", "a"), ("configmaps", "a")]


@given(st.booleans(), st.sampled_from([None, {"ca.crt": "PEM"}, {"ca.crt": "OLD"}, {"ca.crt": "PEM", "own": "1"}, {}]))
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


def test_retry_backoff_grows_until_done() -> None:
    retries = RetryBackoff()
    waits = [retries.failed("a") for _ in range(7)]
    assert waits == sorted(waits)
    assert (waits[0], waits[-1]) == (0.5, MAX_DELAY_S)
    retries.done("a")
    assert retries.failed("a") == 0.5


def test_conditions_of_an_ending_namespace_say_what_is_left() -> None:
    left = Remaining()
    held = [{"metadata": {"finalizers": ["a/b"]}}, {"metadata": {"finalizers": ["a/b", "c/d"]}}, {}]
    left.add(PODS, {"items": held, "metadata": {"remainingItemCount": 7}})
    left.add(CONFIGMAPS, {"items": []})
    made = ending_conditions(namespace(), left, "t1") or []
    told = {each["type"]: (each["status"], each["reason"], each["message"]) for each in made}
    assert list(told) == list(FINE)
    assert told[CONTENT] == (
        "True",
        "SomeResourcesRemain",
        "Some resources are remaining: pods. has 10 resource instances",
    )
    holders = "a/b in 2 resource instances, c/d in 1 resource instances"
    text = f"Some content in the namespace has finalizers remaining: {holders}"
    assert told[FINALIZERS] == ("True", "SomeFinalizersRemain", text)
    assert told[FAILURE] == ("False", *FINE[FAILURE])
    before = {**namespace(), "status": {"conditions": [{"type": "Mine"}, *made]}}
    assert ending_conditions(before, left, "t2") is None
    left.errors.append("pods: denied")
    again = ending_conditions(before, left, "t2") or []
    assert again[0] == {"type": "Mine"}
    since = {each["type"]: each["lastTransitionTime"] for each in again[1:]}
    assert {kind for kind, at in since.items() if at == "t2"} == {FAILURE}


def test_handler_that_fails_keeps_no_event_from_the_others() -> None:
    seen, fail = list[Any](), Mock(side_effect=ValueError("bad object"))
    handlers = FanOut(ChangeHandler(fail, fail), ChangeHandler(seen.append, seen.append))
    events: list[Callable[[], None]] = [
        lambda: handlers.on_add({}), lambda: handlers.on_update({}, {"new": 1}), lambda: handlers.on_delete({})
    ]  # fmt: skip
    for event in events:
        with pytest.raises(ValueError, match="bad object"):
            event()
    assert seen == [{}, {"new": 1}, {}]

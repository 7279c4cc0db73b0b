"""matchLabelKeys and mismatchLabelKeys: merged into the selectors of a new pod, validated there and in templates."""

import copy
import json
from typing import Any

import pytest

from protocols.kinds.pods.pods import PODS

Object = dict[str, Any]
LABELS = {"a": "1", "b": "2"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SELECTOR: Object = {"matchLabels": {"app": "x"}}
A: Object = {"key": "a", "operator": "In", "values": ["1"]}
NOT_B: Object = {"key": "b", "operator": "NotIn", "values": ["2"]}
IN_BOTH = "exists in both matchLabelKeys and labelSelector"


def rule(**fields: Any) -> Object:
    return {"topologyKey": "zone", "labelSelector": SELECTOR, **fields}


def with_term(**fields: Any) -> Object:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [rule(**fields)]}}}


def with_constraint(**fields: Any) -> Object:
    return {"topologySpreadConstraints": [{**rule(**fields), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]}


def unmerged(**spec: Any) -> Object:
    metadata = {"name": "p", "namespace": "ns", "labels": LABELS, "uid": "u", "resourceVersion": "7"}
    spec = {"containers": [{"name": "c", "image": "busybox:1"}], **spec}
    made: Object = json.loads(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    PODS.strategy.default(made)
    return made


def created(**spec: Any) -> Object:
    made = unmerged(**spec)
    PODS.strategy.prepare_create(made)
    return made


def faults(pod: Object) -> list[tuple[str, str]]:
    return [(cause.field, cause.message.rpartition(": ")[2]) for cause in PODS.strategy.validate_create(pod)]


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
def test_keys_of_affinity_terms_are_merged_in_order(kind: str) -> None:
    own = rule(mismatchLabelKeys=["b"], matchLabelKeys=["absent", "a"])
    made = created(affinity={kind: {REQUIRED: [own], PREFERRED: [{"weight": 1, "podAffinityTerm": own}]}})
    terms = made["spec"]["affinity"][kind]
    expected = {**own, "labelSelector": {**SELECTOR, "matchExpressions": [A, NOT_B]}}
    assert terms == {REQUIRED: [expected], PREFERRED: [{"weight": 1, "podAffinityTerm": expected}]}
    assert faults(made) == []


def test_keys_of_spread_constraints_are_merged_behind_the_expressions() -> None:
    given = {"key": "c", "operator": "Exists"}
    made = created(**with_constraint(labelSelector={"matchExpressions": [given]}, matchLabelKeys=["a"]))
    assert made["spec"]["topologySpreadConstraints"][0]["labelSelector"] == {"matchExpressions": [given, A]}
    assert faults(made) == []


@pytest.mark.parametrize("spec", [with_term, with_constraint])
def test_keys_without_a_selector_are_rejected(spec: Any) -> None:
    made = created(**spec(labelSelector=None, matchLabelKeys=["a"]))
    assert [text for _, text in faults(made)] == ["must not be specified when labelSelector is not set"]


@pytest.mark.parametrize("spec", [with_term, with_constraint])
@pytest.mark.parametrize("selector", [{"matchLabels": {"a": "1"}}, {"matchExpressions": [A]}])
def test_matched_key_of_the_selector_is_rejected_in_a_pod_that_has_the_label(spec: Any, selector: Object) -> None:
    made = created(**spec(labelSelector=selector, matchLabelKeys=["absent", "a"]))
    ((path, text),) = faults(made)
    assert path.endswith("[0][1]"), "upstream's path is this one"
    assert text == IN_BOTH


def test_matched_key_given_twice_is_rejected() -> None:
    assert [text for _, text in faults(created(**with_constraint(matchLabelKeys=["a", "a"])))] == [IN_BOTH]


def test_mismatched_key_of_the_selector_is_accepted() -> None:
    assert faults(created(**with_term(labelSelector={"matchLabels": {"b": "3"}}, mismatchLabelKeys=["b"]))) == []


def test_matched_and_mismatched_key_is_rejected() -> None:
    ((path, text),) = faults(created(**with_term(matchLabelKeys=["absent"], mismatchLabelKeys=["absent"])))
    assert path.endswith("[0].matchLabelKeys[0]")
    assert text == "exists in both matchLabelKeys and mismatchLabelKeys"


@pytest.mark.parametrize("spec", [with_term, with_constraint])
def test_template_may_have_a_matched_key_in_its_selector(spec: Any) -> None:
    made = unmerged(**spec(labelSelector={"matchExpressions": [A]}, matchLabelKeys=["a"]))
    assert faults(made) == []


def test_update_of_a_merged_pod_is_accepted_and_merges_nothing_again() -> None:
    old = created(**with_term(matchLabelKeys=["a"]))
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = {"a": "9"}
    PODS.strategy.prepare_update(new, old)
    assert new["spec"] == old["spec"]
    assert PODS.strategy.validate_update(new, old) == []


def test_update_with_the_selector_before_the_merge_is_rejected() -> None:
    old, new = created(**with_term(matchLabelKeys=["a"])), unmerged(**with_term(matchLabelKeys=["a"]))
    PODS.strategy.prepare_update(new, old)
    assert [cause.field for cause in PODS.strategy.validate_update(new, old)] == ["spec"]

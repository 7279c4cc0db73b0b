"""What is not covered of rules, against the plain way that multiplies them out."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.api.request.target import Attributes
from actors.apiserver.authorization.rbac.rules import resource_matches, rule_allows
from protocols.kinds.check.budget import BudgetSpent
from protocols.kinds.rbac.cover import uncovered
from protocols.kinds.rbac.policy_rule import PolicyRule

Rules = tuple[PolicyRule, ...]


def _some(*values: str) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from((*values, "*")), min_size=1, max_size=3).map(tuple)


RESOURCES = _some("pods", "pods/log", "secrets", "*/log")
NAMES = st.just(()) | st.lists(st.sampled_from(("a", "b")), min_size=1).map(tuple)
RULES = st.builds(PolicyRule, _some("get", "list"), _some("", "apps"), RESOURCES, NAMES) | st.builds(
    PolicyRule, _some("get", "list"), urls=_some("/api", "/api/v1", "/api/*", "/m*")
)


def _multiplied(held: Rules, granted: Rules) -> set[PolicyRule]:
    """The plain way: each permission of `granted` against each rule of `held`."""
    missing = set()
    for rule in granted:
        for verb, url in itertools.product(rule.verbs, rule.urls):
            if not any(rule_allows(have, Attributes(verb, url)) for have in held):
                missing.add(PolicyRule((verb,), urls=(url,)))
        for verb, group, resource, name in itertools.product(
            rule.verbs, rule.groups, rule.resources, rule.names or ("",)
        ):
            atom = PolicyRule((verb,), (group,), (resource,), (name,) if name else ())
            if not any(_includes(have, atom) for have in held):
                missing.add(atom)
    return missing


def _includes(have: PolicyRule, atom: PolicyRule) -> bool:
    plain, _, below = atom.resources[0].partition("/")
    named = not have.names or (bool(atom.names) and atom.names[0] in have.names)
    listed = atom.resources[0] in have.resources or resource_matches(have.resources, plain, below)
    return (
        ("*" in have.verbs or atom.verbs[0] in have.verbs)
        and ("*" in have.groups or atom.groups[0] in have.groups)
        and listed
        and named
    )


@given(st.lists(RULES, max_size=4).map(tuple), st.lists(RULES, max_size=3).map(tuple))
def test_uncovered_of_any_rules_is_what_multiplying_them_out_finds(held: Rules, granted: Rules) -> None:
    assert set(uncovered(held, granted)) == _multiplied(held, granted)


def test_uncovered_of_a_large_cube_takes_no_time() -> None:
    verbs, resources, names = (tuple(f"{word}{n}" for n in range(150)) for word in "vrn")
    cube = PolicyRule(verbs, ("",), resources, names)
    halves = PolicyRule(verbs[:75], ("",), resources, names), PolicyRule(verbs[75:], ("",), resources)
    began = time.process_time()
    assert uncovered(halves, (cube,)) == ()
    assert len(uncovered(halves[:1], (cube,))) == 100
    assert time.process_time() - began < 1.0


def test_uncovered_of_rules_made_to_multiply_ends_at_a_bound() -> None:
    verbs, resources, names = (tuple(f"{word}{n}" for n in range(40)) for word in "vrn")
    held = [PolicyRule((verb,), ("",), resources, names[: n or 1]) for n, verb in enumerate(verbs)]
    held += [
        PolicyRule((verb,), ("",), (resource,), names[n:]) for n, verb in enumerate(verbs) for resource in resources
    ]
    with pytest.raises(BudgetSpent):
        uncovered(held, (PolicyRule(verbs, ("",), resources, names),))

"""The rules of conform's behaviours: `rules.toml` of each kind, beside the coroutines that judge."""

import pytest

from supervisor.conform.scripts import KINDS, Kind, behaviours, read_rules


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_each_behaviour_has_a_rule_in_the_order_in_which_they_run(kind: Kind) -> None:
    own = [behaviour.name for behaviour in behaviours(kind=kind) if behaviour.name not in kind.shared]
    assert list(read_rules(kind.folder)) == own


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_texts_are_one_line_with_sources_named(kind: Kind) -> None:
    for behaviour in behaviours(kind=kind):
        assert not {"\n", "{"}.intersection(behaviour.title + behaviour.rule + behaviour.source + behaviour.advice)

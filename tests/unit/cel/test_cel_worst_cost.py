"""Worst costs of rules: at most upstream's, so that definitions that upstream takes are taken."""

import pytest

from protocols.cel.rules.check import Checker
from protocols.cel.rules.values import CelType

TEXT, NAME = CelType("string"), CelType("string", 253)
ITEM = CelType("object", fields={"name": ("name", NAME), "value": ("value", NAME)})
FIELDS = {
    "text": TEXT,
    "other": TEXT,
    "number": CelType("int"),
    "texts": CelType("list", None, TEXT),
    "names": CelType("list", 1000, NAME),
    "items": CelType("list", 500, ITEM),
    "map": CelType("map", None, CelType("bool")),
}
SELF = CelType("object", fields={name: (name, kind) for name, kind in FIELDS.items()})
LIMIT = 10_000_000


@pytest.mark.parametrize(
    ("rule", "upstream"),
    [
        ("self.text.startsWith('test')", 3),
        ("self.text.endsWith('test')", 3),
        ("self.texts.all(each, each.startsWith('test'))", LIMIT),
        ("self.texts.all(each, duration(each) > duration('1s'))", LIMIT),
        ("self.items.all(one, self.items.exists_one(other, one == other))", LIMIT),
        ("self.items.all(one, self.items.exists_one(other, one.name == other.name))", LIMIT),
        ("oldSelf.names.all(each, each in self.names)", 1_010_000),
        ("oldSelf.map.all(each, each in self.map)", LIMIT),
        ("sets.contains(self.names, oldSelf.names)", 1_000_010),
        ("sets.equivalent(self.names, oldSelf.names)", 2_000_010),
        ("self.names.filter(each, each == 'a').size() == 1", 50_000),
        ("self.names.map(each, each + 'a').size() == 1", 50_000),
        ("'%s is not what it may be, which is %s at most, or %d'.format([self.text, self.other, 1]) == ''", LIMIT),
        ("self.text.split('/').size() == 2 && self.text.split('/')[0] == 'a'", 1_300_000),
        ("self.text.replace('a.long.prefix/', '') == ''", 629_160),
        ("self.text.find('[0-9]+') == ''", 629_150),
        ("self.text.find('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(/[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$') == ''", LIMIT),
    ],
)
def test_the_worst_cost_of_a_rule_is_at_most_upstreams(rule: str, upstream: int) -> None:
    assert 0 < Checker(SELF, 1).check(rule, False)[1] <= upstream

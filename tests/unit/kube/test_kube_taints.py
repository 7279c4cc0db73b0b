"""Tolerations of taints, as upstream's ToleratesTaint has them."""

from typing import Any

import pytest

from protocols.kube.taints import Taint, device_seconds_tolerated, seconds_tolerated, taint_text, tolerates, untolerated

TAINT = Taint("k", "v", "NoExecute")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Equal", "value": "other"}, False),
        ({"key": "k", "operator": "Exists"}, True),
        ({"key": "other", "operator": "Exists"}, False),
        ({"operator": "Exists"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, True),
        ({"key": "k", "operator": "Exists", "effect": "NoSchedule"}, False),
        ({"key": "k", "operator": "Gt", "value": "v"}, False),
    ],
)
def test_toleration_covers_taint_by_key_value_and_effect(toleration: dict[str, Any], expected: bool) -> None:
    assert tolerates(toleration, TAINT) is expected


def test_first_untolerated_taint_with_a_hard_effect_is_returned() -> None:
    soft, other = Taint("soft", "", "PreferNoSchedule"), Taint("other", "", "NoSchedule")
    assert untolerated((soft, Taint("none", "", "None")), ()) is None
    assert untolerated((soft, TAINT, other), [{"key": "k", "operator": "Exists"}]) is other
    assert untolerated((soft, TAINT, other), ()) is TAINT


def test_text_is_as_kubectl_writes_it() -> None:
    assert [taint_text(TAINT), taint_text(Taint("k", "", "NoSchedule"))] == ["k=v:NoExecute", "k:NoSchedule"]


def test_shortest_toleration_of_a_taint_counts_but_of_devices_the_lasting_one() -> None:
    forever, minute = {"operator": "Exists"}, {"key": "k", "operator": "Exists", "tolerationSeconds": 60}
    assert seconds_tolerated(TAINT, []) == 0
    assert seconds_tolerated(TAINT, [forever]) is None
    assert seconds_tolerated(TAINT, [forever, minute]) == 60
    assert device_seconds_tolerated(TAINT, [forever, minute]) is None
    assert device_seconds_tolerated(TAINT, [{**forever, "key": "other"}, minute]) == 60
    assert device_seconds_tolerated(TAINT, []) == 0
    assert seconds_tolerated(Taint("k", "v", "NoSchedule"), []) is None

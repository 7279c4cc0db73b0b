"""Claims in pods."""

import time
from typing import Any

import pytest

from protocols.kinds.pods.spec.claims import claim_causes

TEMPLATE = {"resourceClaimTemplateName": "t"}


def told(claims: list[Any], uses: list[Any] = [], **metadata: Any) -> list[str]:  # noqa: B006
    container = {"name": "c", "resources": {"claims": uses}}
    pod = {"metadata": metadata, "spec": {"resourceClaims": claims, "containers": [container]}}
    return [f"{cause.field.removeprefix('spec.')}: {cause.message}" for cause in claim_causes(pod)]


@pytest.mark.parametrize(
    ("claims", "uses", "says"),
    [
        ([{"name": "a", **TEMPLATE}], [{"name": "a", "request": "s"}, {"name": "a", "request": "r"}], ""),
        ([{"name": "a", **TEMPLATE}], [{"name": "a"}, {"name": "a", "request": "r"}], 'claims[1]: Duplicate value: "a'),
        ([{"name": "a", **TEMPLATE}], [{"name": "a", "request": "r"}, {"name": "a"}], 'claims[1]: Duplicate value: "a'),
        ([{"name": "a", **TEMPLATE}], [{"name": "a", "request": "r"}] * 2, 'claims[1]: Duplicate value: "a/r"'),
        ([{"name": "a"}], [], "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
        ([{"name": "a", "resourceClaimName": "c", **TEMPLATE}], [], "at most one of `resourceClaimName` or `resource"),
        ([{"name": "A", **TEMPLATE}], [], 'resourceClaims[0].name: Invalid value: "A": a lowercase RFC 1123 label'),
        ([{"name": "a", **TEMPLATE}, {"name": "a", **TEMPLATE}], [], 'resourceClaims[1].name: Duplicate value: "a"'),
        ([{"name": "a", "resourceClaimName": "B_"}], [], 'resourceClaims[0].resourceClaimName: Invalid value: "B_"'),
        ([{"name": "a", "resourceClaimName": ""}], [], 'resourceClaims[0].resourceClaimName: Invalid value: ""'),
        ([], [{"name": "a"}], 'containers[0].resources.claims[0]: Not found: "a": must be one of'),
        ([{"name": "a", **TEMPLATE}], [{}], "containers[0].resources.claims[0]: Required value"),
        ([{"name": "a", **TEMPLATE}], [{"name": "a"}, {"name": "a"}], 'resources.claims[1]: Duplicate value: "a"'),
    ],
)
def test_claims_of_pods(claims: list[Any], uses: list[Any], says: str) -> None:
    found = told(claims, uses)
    assert len(found) == bool(says)
    assert not says or says in found[0]


def test_static_pods_have_none() -> None:
    found = told([{"name": "a", **TEMPLATE}], annotations={"kubernetes.io/config.mirror": "x"})
    assert found == [": Forbidden: static pods do not support resource claims"]


def test_wrong_uses_of_many_claims_cost_linear_time_and_memory() -> None:
    claims = [{"name": f"claim-{number}", **TEMPLATE} for number in range(10_000)]
    began = time.process_time()
    found = told(claims, [{"name": f"other-{number}"} for number in range(10_000)])
    assert time.process_time() - began < 1
    assert max(map(len, found)) < 1200

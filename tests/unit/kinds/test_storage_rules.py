"""Classes that claims and volumes name."""

import pytest

from protocols.kinds.storage.attachments import ATTRIBUTES
from protocols.kinds.storage.volumes import CLAIMS
from protocols.kinds.storage.warnings import CLASS_ANNOTATION
from protocols.kube.meta import Object

ANNOTATED = f"metadata.annotations.{CLASS_ANNOTATION}"


def claim(given: str | None, annotation: str | None = None, requests: Object | None = None) -> Object:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi", **(requests or {})}}}
    annotations = {} if annotation is None else {"annotations": {CLASS_ANNOTATION: annotation}}
    named = {} if given is None else {"storageClassName": given}
    return {"metadata": {"name": "c", **annotations}, "spec": {**spec, **named}}


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        (claim(None), claim("a"), []),
        (claim(None), claim(""), []),
        (claim(""), claim("a"), ["spec"]),
        (claim("a"), claim(None), ["spec"]),
        (claim(None, "a"), claim("a", "a"), []),
        (claim(None, "a"), claim("a"), []),
        (claim(None, "a"), claim("b", "a"), ["spec"]),
        (claim(None, "a"), claim(None, "b"), [ANNOTATED]),
        (claim("a", "a"), claim("a"), [ANNOTATED]),
    ],
)
def test_claim_gets_a_class_once_and_keeps_it(old: Object, new: Object, wrong: list[str]) -> None:
    assert [cause.field for cause in CLAIMS.strategy.validate_update(new, old)] == wrong


def test_bound_claim_changes_its_storage_only() -> None:
    old, new = claim("a") | {"status": {"phase": "Bound"}}, claim("a", requests={"storage": "2Gi"})
    assert CLAIMS.strategy.validate_update(new, old) == []
    new["spec"]["resources"]["requests"]["example.com/iops"] = "1"
    assert [cause.field for cause in CLAIMS.strategy.validate_update(new, old)] == ["spec"]


def test_claim_names_a_valid_class_of_attributes() -> None:
    body = claim("a")
    body["spec"]["volumeAttributesClassName"] = "A"
    assert [cause.field for cause in CLAIMS.strategy.validate_create(body)] == ["spec.volumeAttributesClassName"]


@pytest.mark.parametrize(
    ("driver", "parameters", "wrong"),
    [
        ("kubernetes.io/aws-EBS", {"iops": "1"}, []),
        ("", {"iops": "1"}, ["driverName"]),
        ("a b", {"": "1"}, ["driverName", "parameters"]),
        ("d", dict.fromkeys(map(str, range(513)), ""), ["parameters"]),
        ("d", {}, ["parameters"]),
    ],
)
def test_class_of_attributes_has_the_rules_of_a_storage_class(
    driver: str, parameters: Object, wrong: list[str]
) -> None:
    causes = ATTRIBUTES.strategy.validate_create({"driverName": driver, "parameters": parameters})
    assert [cause.field for cause in causes] == wrong

"""The facts of every type: each is read, refers to types that exist, and has one number a field."""

import pytest

from protocols.kinds.fields import Field, Type, element_of, inlined, package_of, packages, resolve, types_of

SCALARS = {"str", "bool", "int32", "int64", "bytes", "time", "microtime", "quantity", "int-or-string", "any", "json"}
ON_THE_WIRE = SCALARS | {"strings", "double"}


def exists(each: Type, name: str, scalars: set[str]) -> bool:
    package, local = resolve(each.package, name)
    return name in scalars or local in types_of(package)


@pytest.mark.parametrize("package", packages())
def test_types_of_fields_exist(package: str) -> None:
    for each in types_of(package).values():
        for field in each.fields:
            assert exists(each, element_of(field.type), SCALARS), (each.name, field)
            assert exists(each, element_of(field.wire), ON_THE_WIRE), (each.name, field)


@pytest.mark.parametrize("package", packages())
def test_names_and_numbers_are_unique(package: str) -> None:
    for each in types_of(package).values():
        numbers, names = [f.number for f in each.fields if f.number], [f.name for f in inlined(each)]
        assert len(numbers) == len(set(numbers)), each.name
        assert len(names) == len(set(names)), each.name


def test_marks() -> None:
    webhook = {field.name: field for field in types_of("admissionregistration.v1")["ValidatingWebhook"].fields}
    assert webhook["sideEffects"] == Field(
        6, "sideEffects", "str", "str", is_required=True, is_present=True, is_null=True
    )
    assert webhook["timeoutSeconds"].keeps_zero
    assert not webhook["timeoutSeconds"].is_present
    subresources = types_of("apiextensions.v1")["CustomResourceSubresources"].fields
    assert [(f.type, f.wire) for f in subresources if f.name == "status"] == [
        ("any", "CustomResourceSubresourceStatus")
    ]


def test_inlined_fields_stand_in_the_object() -> None:
    names = {field.name for field in inlined(types_of("core.v1")["Volume"])}
    assert {"name", "emptyDir", "hostPath"} <= names
    assert "volumeSource" not in names
    rules = types_of("admissionregistration.v1")["NamedRuleWithOperations"]
    assert {"resourceNames", "operations", "apiGroups", "scope"} == {f.name for f in inlined(rules)} - {
        "apiVersions", "resources",
    }  # fmt: skip


def test_an_older_version_has_the_types_that_it_shares() -> None:
    old, new = types_of("resource.v1beta1"), types_of("resource.v1")
    assert old["CounterSet"].fields == new["CounterSet"].fields
    assert old["CounterSet"].package == "resource.v1beta1"
    assert [f.name for f in old["Device"].fields] == ["name", "basic"]


@pytest.mark.parametrize(
    ("group", "package"),
    [
        ("", "core.v1"),
        ("apps", "apps.v1"),
        ("resource.k8s.io", "resource.v1"),
        ("rbac.authorization.k8s.io", "rbac.v1"),
    ],
)
def test_package_of(group: str, package: str) -> None:
    assert package_of(group, "v1") == package


@pytest.mark.parametrize("group", ["apps.example.com", "resource.example.com", "rbac.k8s.io", "a.apps.k8s.io"])
def test_group_of_somebody_else_has_no_package(group: str) -> None:
    assert package_of(group, "v1") not in packages()

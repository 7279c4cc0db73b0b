import pytest

from protocols.kube import names


@pytest.mark.parametrize("value", ["a", "a-b", "1", "kube-system", "a" * 63])
def test_labels(value: str) -> None:
    assert names.label_fault(value) == ""


@pytest.mark.parametrize("value", ["", "-a", "a-", "A", "a.b", "a_b", "a" * 64, "a\n", "ä"])
def test_not_labels(value: str) -> None:
    assert names.label_fault(value)


@pytest.mark.parametrize("value", ["a.b", "a-1.b-2", "a" * 253])
def test_subdomains(value: str) -> None:
    assert names.subdomain_fault(value) == ""


@pytest.mark.parametrize("value", ["", ".", "a..b", "a.-b", "a.b.", "a" * 254, "a/b", "a.b\n"])
def test_not_subdomains(value: str) -> None:
    assert names.subdomain_fault(value)


@pytest.mark.parametrize("value", ["app", "example.com/gpu", "A_b.c", "node.kubernetes.io/unreachable"])
def test_qualified_names(value: str) -> None:
    assert names.qualified_name_fault(value) == ""


@pytest.mark.parametrize("value", ["", "/a", "a/", "A.com/b", "a/b/c", "-a", "a" * 64, "x" * 254 + "/a"])
def test_not_qualified_names(value: str) -> None:
    assert names.qualified_name_fault(value)


def test_label_values_may_be_empty() -> None:
    assert names.label_value_fault("") == ""
    assert names.label_value_fault("a b")
    assert names.label_value_fault("-")


def test_path_segments() -> None:
    assert names.path_segment_faults("any Thing:1") == []
    assert all(names.path_segment_faults(value) for value in (".", "..", "a/b", "a%"))

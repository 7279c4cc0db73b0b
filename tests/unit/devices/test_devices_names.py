"""Which registrations are taken."""

import pytest

from actors.devices.model.errors import RegistrationRejected, describe
from actors.devices.plugins.connections import check_registration
from protocols.kube.resource_names import _is_extended, is_extended
from protocols.wire.methods import rpc_error
from protocols.wire.plugin_names import registry_fault


@pytest.mark.parametrize(
    "name", ["example.com/gpu", "a.b/c", "nvidia.com/mig-1g.5gb", "x/Y_z", f"example.com/{'x' * 63}"]
)
def test_extended_resources(name: str) -> None:
    assert is_extended(name)


@pytest.mark.parametrize(
    "name",
    ["", "cpu", "/x", "x/", "a/b/c", "kubernetes.io/x", "a.kubernetes.io/x", "requests.foo/x", "Example.com/x",
     "a..b/c", "-a/b", f"example.com/{'x' * 64}", f"{'a' * 245}/x", "example.com/x y", "example.com/x\n", "exa mple/x"],
)  # fmt: skip
def test_others(name: str) -> None:
    assert not is_extended(name)


def test_names_that_are_too_long_are_not_retained() -> None:
    before = _is_extended.cache_info().currsize
    assert not is_extended(f"a/{'x' * 1000}")
    assert _is_extended.cache_info().currsize == before


@pytest.mark.parametrize("endpoint", ["", ".", "..", "a/b", "../x", "/abs", "kubelet.sock", "a\0b"])
def test_endpoints_stay_in_the_directory(endpoint: str) -> None:
    with pytest.raises(RegistrationRejected, match="endpoint"):
        check_registration("v1beta1", "example.com/gpu", endpoint)


def test_a_fault_shows_the_beginning_of_a_long_text() -> None:
    long = "!" * 100_000
    for registration in ((long, "a/x", "x"), ("v1beta1", long, "x"), ("v1beta1", "a/x", f"/{long}")):
        with pytest.raises(RegistrationRejected) as rejected:
            check_registration(*registration)
        assert len(str(rejected.value)) < 1000
    assert len(registry_fault("a/x", [long] * 1000)) < 10_000


def test_version_is_checked_first() -> None:
    with pytest.raises(RegistrationRejected, match='version "v1" is not supported'):
        check_registration("v1", "cpu", "")
    check_registration("v1beta1", "example.com/gpu", "gpu.sock")


@pytest.mark.parametrize(
    ("code", "spelled"), [("DEADLINE_EXCEEDED", "DeadlineExceeded"), ("CANCELLED", "Canceled"), ("OK", "OK")]
)
def test_codes_of_grpc_are_spelled_as_in_go(code: str, spelled: str) -> None:
    assert describe(rpc_error(code, "two\nlines")) == f"rpc error: code = {spelled} desc = two lines"

"""The user that Impersonate-* headers name, as kube-apiserver reads them."""

from unittest.mock import Mock

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from actors.apiserver.api.errors import BadRequest
from actors.apiserver.api.request.user import AUTHENTICATED, User
from actors.apiserver.http.authentication.authenticator import impersonated

UNAUTHENTICATED = "system:unauthenticated"
ADMIN = User("admin", ("system:masters",))


def acting_as(*headers: tuple[str, str]) -> User:
    return impersonated(Mock(), ADMIN, CIMultiDictProxy(CIMultiDict(headers)), "/")


@pytest.mark.parametrize(
    ("name", "groups", "expected"),
    [
        ("bob", (), (AUTHENTICATED,)),
        ("bob", ("dev",), ("dev", AUTHENTICATED)),
        ("bob", (AUTHENTICATED, "dev"), (AUTHENTICATED, "dev")),
        ("bob", (UNAUTHENTICATED,), (UNAUTHENTICATED,)),
        ("system:anonymous", (), (UNAUTHENTICATED,)),
        ("system:serviceaccount:ns:a", (), ("system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED)),
    ],
)
def test_groups_of_an_impersonated_user(name: str, groups: tuple[str, ...], expected: tuple[str, ...]) -> None:
    user = acting_as(("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups))
    assert (user.name, user.groups) == (name, expected)


def test_an_empty_user_is_none() -> None:
    assert acting_as(("Impersonate-User", "")) == ADMIN
    with pytest.raises(BadRequest, match="without impersonating a user"):
        acting_as(("Impersonate-User", ""), ("Impersonate-Group", "dev"))

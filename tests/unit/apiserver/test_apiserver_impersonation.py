"""The user that Impersonate-* headers name, as kube-apiserver reads them."""

from typing import Any
from unittest.mock import Mock

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from actors.apiserver.api.errors import BadRequest, Forbidden
from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import AUTHENTICATED, User
from actors.apiserver.http.authentication.impersonation import impersonated

UNAUTHENTICATED = "system:unauthenticated"
ADMIN = User("admin", ("system:masters",))
LIST = Attributes("list", "/api/v1/pods", "", "pods")


def acting(*headers: tuple[str, str], author: User = ADMIN, authorizer: Any = None) -> tuple[User, str]:
    given = CIMultiDictProxy(CIMultiDict(headers))
    return impersonated(authorizer or Mock(), author, given, lambda: LIST)


def acting_as(*headers: tuple[str, str], author: User = ADMIN, authorizer: Any = None) -> User:
    return acting(*headers, author=author, authorizer=authorizer)[0]


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


def test_names_are_bounded() -> None:
    """Users are kept for the next request: 1,024 with a hundred groups of 60 kB would fill the memory."""
    groups = [("Impersonate-Group", str(number) * 20_000) for number in range(4)]
    with pytest.raises(BadRequest, match="longer than 65536 characters"):
        acting_as(("Impersonate-User", "bob"), *groups)


class Rules:
    """Allows rights by verb, resource with group, and name."""

    def __init__(self, *allowed: tuple[str, str, str]) -> None:
        self._allowed = allowed

    def check(self, user: User, wanted: Attributes) -> None:
        resource = "/".join(filter(None, (wanted.group, wanted.resource, wanted.subresource)))
        if (wanted.verb, resource, wanted.name) not in self._allowed:
            raise Forbidden(f"{wanted.verb} {resource} {wanted.name}")


REVIEWS = "authentication.k8s.io"
AGENT = User("system:serviceaccount:ns:agent", extra=(("authentication.kubernetes.io/node-name", ("n1",)),))
AS_BOB = (("impersonate-on:user-info:list", "pods", ""), ("impersonate:user-info", f"{REVIEWS}/users", "bob"))
DEV = ("impersonate:user-info", f"{REVIEWS}/groups", "dev")
TEAM = ("impersonate:user-info", f"{REVIEWS}/userextras/example.com/team", "a")


def on_list(mode: str, resource: str, name: str) -> tuple[tuple[str, str, str], ...]:
    return (f"impersonate-on:{mode}:list", "pods", ""), (f"impersonate:{mode}", f"{REVIEWS}/{resource}", name)


@pytest.mark.parametrize(
    ("rights", "headers", "groups"),
    [
        (AS_BOB, [("User", "bob")], (AUTHENTICATED,)),
        ((*AS_BOB, DEV), [("User", "bob"), ("Group", "dev")], ("dev", AUTHENTICATED)),
        ((*AS_BOB, TEAM), [("User", "bob"), ("Extra-example.com%2fTeam", "a")], (AUTHENTICATED,)),
        ((("impersonate", "users", "bob"),), [("User", "bob")], (AUTHENTICATED,)),
        (on_list("arbitrary-node", "nodes", "n2"), [("User", "system:node:n2")], ("system:nodes", AUTHENTICATED)),
        (on_list("associated-node", "nodes", "*"), [("User", "system:node:n1")], ("system:nodes", AUTHENTICATED)),
        (
            on_list("serviceaccount", "serviceaccounts", "b"),
            [("User", "system:serviceaccount:ns:b")],
            ("system:serviceaccounts", "system:serviceaccounts:ns", AUTHENTICATED),
        ),
    ],
)
def test_rights_of_one_mode_suffice(
    rights: tuple[tuple[str, str, str], ...], headers: list[tuple[str, str]], groups: tuple[str, ...]
) -> None:
    sent = [(f"Impersonate-{name}", value) for name, value in headers]
    user, constraint = acting(*sent, author=AGENT, authorizer=Rules(*rights))
    assert user.groups == groups
    assert constraint == next((verb for verb, *_ in rights if verb.startswith("impersonate:")), "")
    for missing in rights:
        with pytest.raises(Forbidden):
            acting_as(*sent, author=AGENT, authorizer=Rules(*(right for right in rights if right != missing)))


@pytest.mark.parametrize(
    "headers",
    [
        [("User", "bob"), ("Group", "system:masters")],
        [("User", "bob"), ("Extra-team", "a")],
        [("User", "system:node:n1"), ("Group", "dev")],
        [("User", "system:serviceaccount:ns:b"), ("Uid", "1")],
    ],
)
def test_what_constrained_modes_never_allow_needs_the_whole_right(headers: list[tuple[str, str]]) -> None:
    sent = [(f"Impersonate-{name}", value) for name, value in headers]
    with pytest.raises(Forbidden, match=r"^impersonate "):
        acting_as(*sent, author=AGENT, authorizer=Rules())


def test_first_missing_right_is_named() -> None:
    with pytest.raises(Forbidden, match=r"^impersonate-on:user-info:list pods $"):
        acting_as(("Impersonate-User", "bob"), authorizer=Rules())

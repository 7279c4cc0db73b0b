"""The user that a request acts as: Impersonate-* headers and the rights that they need.

Upstream's constrained impersonation (KEP-5284, beta since 1.36) comes first. It has a mode for each sort of user and
needs the verb `impersonate:MODE` on the user, and `impersonate-on:MODE:VERB` on what the request asks for. Otherwise
the verb `impersonate` is needed, and allows whatever the impersonated user may do.
"""

import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace
from multidict import CIMultiDictProxy

from actors.apiserver.api.errors import BadRequest, Forbidden, Unauthorized
from actors.apiserver.api.request.target import Attributes
from actors.apiserver.api.request.user import (
    ANONYMOUS,
    AUTHENTICATED,
    NODE_NAME,
    User,
    account_groups,
    service_account_of,
)
from actors.apiserver.authorization.authorizer import MASTERS, Authorizer
from actors.apiserver.authorization.node_rules import NODE_PREFIX, NODES
from protocols.kube.names import subdomain_faults

USER, GROUP, UID, EXTRA = "Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "impersonate-extra-"
ASSOCIATED_NODE, ARBITRARY_NODE, ACCOUNT, USER_INFO = "associated-node", "arbitrary-node", "serviceaccount", "user-info"
ANY_RIGHT = ""
"""The mode whose rights say nothing about the request."""
LONGEST = 64 * 1024
"""Characters of all headers: users are kept for further requests."""
REVIEWS = "authentication.k8s.io"
_KEY = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[a-z0-9/._~%!$&'()*+,;=:-]+")


class _Wanted(msgspec.Struct, frozen=True):
    """The user that the headers name."""

    name: str
    groups: tuple[str, ...]
    uid: str
    extra: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def node(self) -> str:
        """Name of the node that the user is; empty for others."""
        name = self.name.removeprefix(NODE_PREFIX)
        return "" if name == self.name or subdomain_faults(name) else name

    @property
    def fits_constraints(self) -> bool:
        """Return False for what the constrained modes never allow, whatever the rights."""
        values = [value for _, values in self.extra for value in values]
        return (
            not {"", MASTERS} & set(self.groups) and all(values) and all(_KEY.fullmatch(key) for key, _ in self.extra)
        )


def impersonated(
    authorizer: Authorizer, author: User, headers: CIMultiDictProxy[str], request: Callable[[], Attributes]
) -> tuple[User, str]:
    """Return the user a request acts as, and the verb of the constrained mode that allows it, empty without one.

    Without Impersonate-* headers that is `author` itself.

    `request` returns what it asks for. Raises BadRequest, Unauthorized, Forbidden.
    """
    wanted = _wanted(headers)
    if wanted is None:
        return author, ""
    if author.name == ANONYMOUS.name:
        raise Unauthorized
    fault, asked = None, request()
    for mode in _modes(author, wanted):
        try:
            for right in _rights(mode, wanted, asked):
                authorizer.check(author, right)
        except Forbidden as error:
            fault = fault or error
        else:
            user = User(wanted.name, _groups(mode, wanted), wanted.uid, wanted.extra)
            return user, f"impersonate:{mode}" if mode else ""
    assert fault is not None
    raise fault


def _wanted(headers: CIMultiDictProxy[str]) -> _Wanted | None:
    """Raises BadRequest."""
    if "impersonate-" not in "\n".join(headers).lower():  # one search for all names, since every request passes here
        return None
    asked = [(key.lower(), value) for key, value in headers.items() if key.lower().startswith("impersonate-")]
    if sum(len(value) for _, value in asked) > LONGEST:
        raise BadRequest(f"Impersonate-* headers are longer than {LONGEST} characters")
    if not all(value.isprintable() for _, value in asked):
        raise BadRequest("Impersonate-* headers must be printable text in UTF-8")
    name, extra = headers.get(USER, ""), {key for key, _ in asked if key.startswith(EXTRA)}
    if not name:
        if extra or GROUP in headers or UID in headers:
            raise BadRequest("requested to impersonate a group, uid or extra without impersonating a user")
        return None
    pairs = tuple((unquote(key[len(EXTRA) :]).lower(), tuple(headers.getall(key))) for key in sorted(extra))
    return _Wanted(name, tuple(headers.getall(GROUP, [])), headers.get(UID, ""), pairs)


def _modes(author: User, wanted: _Wanted) -> Iterator[str]:
    """Yield the modes that fit, the most constrained first."""
    bare = not (wanted.groups or wanted.uid or wanted.extra)
    if wanted.node:
        if bare and service_account_of(author.name) and dict(author.extra).get(NODE_NAME) == (wanted.node,):
            yield ASSOCIATED_NODE
        if bare:
            yield ARBITRARY_NODE
    elif service_account_of(wanted.name):
        if bare:
            yield ACCOUNT
    elif wanted.fits_constraints:
        yield USER_INFO
    yield ANY_RIGHT


def _rights(mode: str, wanted: _Wanted, asked: Attributes) -> Iterator[Attributes]:
    verb, group = (f"impersonate:{mode}", REVIEWS) if mode else ("impersonate", "")
    if mode:
        yield replace(asked, verb=f"impersonate-on:{mode}:{asked.verb}")

    def right(resource: str, name: str, group: str = group, subresource: str = "", namespace: str = "") -> Attributes:
        return Attributes(verb, asked.path, group, resource, subresource, namespace, name)

    if account := service_account_of(wanted.name):
        yield right("serviceaccounts", account[1], namespace=account[0])
    elif mode in (ASSOCIATED_NODE, ARBITRARY_NODE):
        yield right("nodes", wanted.node if mode == ARBITRARY_NODE else "*")
    else:
        yield right("users", wanted.name)
    yield from (right("groups", name) for name in wanted.groups)
    if wanted.uid:
        yield right("uids", wanted.uid, REVIEWS)
    yield from (right("userextras", value, REVIEWS, key) for key, values in wanted.extra for value in values)


def _groups(mode: str, wanted: _Wanted) -> tuple[str, ...]:
    account, groups = service_account_of(wanted.name), wanted.groups
    if account and not groups:
        groups = account_groups(account[0])
    if mode in (ASSOCIATED_NODE, ARBITRARY_NODE):
        groups = (NODES,)
    if wanted.name == ANONYMOUS.name:
        return tuple(dict.fromkeys((*groups, *ANONYMOUS.groups)))
    return groups if set(groups) & {AUTHENTICATED, *ANONYMOUS.groups} else (*groups, AUTHENTICATED)

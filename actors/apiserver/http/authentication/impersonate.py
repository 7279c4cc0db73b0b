"""Acting as somebody else: the Impersonate-* headers, for those who hold the verb `impersonate`."""

from urllib.parse import unquote

from multidict import CIMultiDictProxy

from actors.apiserver.api.errors import BadRequest
from actors.apiserver.api.target import Attributes
from actors.apiserver.api.user import ANONYMOUS, AUTHENTICATED, User
from actors.apiserver.authorization.authorizer import Authorizer
from actors.apiserver.authorization.rbac.rules import ACCOUNT

USER, GROUP, UID, EXTRA = "Impersonate-User", "Impersonate-Group", "Impersonate-Uid", "impersonate-extra-"


def impersonated(authorizer: Authorizer, user: User, headers: CIMultiDictProxy[str], path: str) -> User:
    """Whom `user` speaks for: itself without headers. Raises BadRequest, Forbidden."""
    if "impersonate-" not in "\n".join(headers).lower():  # of each request: so it is one look at all their names
        return user
    asked = [key for key in headers if key.lower().startswith("impersonate-")]
    if not asked:
        return user
    extra = [key for key in asked if key.lower().startswith(EXTRA)]
    if not all(value.isprintable() for key in asked for value in headers.getall(key)):
        raise BadRequest("Impersonate-* headers must be printable text in UTF-8")
    if USER not in headers:
        if extra or GROUP in headers or UID in headers:
            raise BadRequest("requested to impersonate a group, uid or extra without impersonating a user")
        return user
    name, groups = headers[USER], tuple(headers.getall(GROUP, []))
    for wanted in _questions(name, groups, headers, extra, path):
        authorizer.check(user, wanted)
    pairs = tuple((unquote(key[len(EXTRA) :]).lower(), tuple(headers.getall(key))) for key in sorted(set(extra)))
    return User(name, _groups(name, groups), headers.get(UID, ""), pairs)


def _questions(
    name: str, groups: tuple[str, ...], headers: CIMultiDictProxy[str], extra: list[str], path: str
) -> list[Attributes]:
    account = _account(name)
    if account:
        found = [Attributes("impersonate", path, "", "serviceaccounts", "", *account)]
    else:
        found = [Attributes("impersonate", path, "", "users", name=name)]
    found += [Attributes("impersonate", path, "", "groups", name=group) for group in groups]
    if headers.get(UID):
        found.append(Attributes("impersonate", path, "authentication.k8s.io", "uids", name=headers[UID]))
    for key in extra:
        field = unquote(key[len(EXTRA) :]).lower()
        for value in headers.getall(key):
            found.append(Attributes("impersonate", path, "authentication.k8s.io", "userextras", field, name=value))
    return found


def _account(name: str) -> tuple[str, str] | None:
    """(namespace, name) of a service account's user name."""
    parts = name.split(":")
    return (parts[2], parts[3]) if len(parts) == 4 and name.startswith(f"{ACCOUNT}:") and all(parts) else None


def _groups(name: str, groups: tuple[str, ...]) -> tuple[str, ...]:
    account = _account(name)
    if account and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{account[0]}")
    if name == ANONYMOUS.name:
        return tuple(dict.fromkeys((*groups, *ANONYMOUS.groups)))
    return tuple(dict.fromkeys((*groups, AUTHENTICATED)))

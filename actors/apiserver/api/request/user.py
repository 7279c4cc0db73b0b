"""Users: the subject of a request."""

import msgspec


class User(msgspec.Struct, frozen=True):
    """The user a request comes from. An empty name means that no credential was presented."""

    name: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further facts of the credential, such as the pod that a token is bound to."""


AUTHENTICATED = "system:authenticated"
ACCOUNT = "system:serviceaccount:"
"""Prefix of the user names of service accounts."""
ACCOUNTS = "system:serviceaccounts"
"""Group of all service accounts."""
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
"""Key in `extra` of the certificate or token that the user has presented."""
NODE_NAME = "authentication.kubernetes.io/node-name"
"""Key in `extra` of a service account's token that is bound to a pod on a node."""
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


def account_name(namespace: str, name: str) -> str:
    """Return the user name of a service account."""
    return f"{ACCOUNT}{namespace}:{name}"


def service_account_of(user: str) -> tuple[str, str] | None:
    """Return (namespace, name) of the service account with this user name, or None."""
    namespace, _, name = user.removeprefix(ACCOUNT).partition(":")
    return (namespace, name) if user.startswith(ACCOUNT) and namespace and name and ":" not in name else None


def account_groups(namespace: str) -> tuple[str, ...]:
    """Return the groups of a namespace's service accounts."""
    return ACCOUNTS, f"{ACCOUNTS}:{namespace}", AUTHENTICATED

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
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))

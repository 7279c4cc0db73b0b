"""Users: the subject of a request."""

import msgspec


class User(msgspec.Struct, frozen=True):
    """Who a request comes from; `name` empty = nobody proved anything."""

    name: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What else the credential says, such as the pod a token is bound to."""


AUTHENTICATED = "system:authenticated"
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))

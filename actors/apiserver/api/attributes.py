"""What is asked for."""

import msgspec


class Attributes(msgspec.Struct, frozen=True):
    """What a request wants, as authorization sees it."""

    verb: str
    path: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    """Equality terms of the field selector."""

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource

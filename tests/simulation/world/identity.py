"""Client certificates without TLS: a context with a subject, which the server sees as its peer's certificate."""

import ssl
from typing import Any, Self

NOT_AFTER = "Jan  1 00:00:00 2100 GMT"


class Credentials(ssl.SSLContext):
    """What a client connects with; aiohttp demands a context."""

    subject: tuple[str, str]

    def __new__(cls, name: str, organization: str = "") -> Self:
        made = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        made.subject = name, organization
        return made

    def certificate(self) -> dict[str, Any]:
        """Return it in the form of SSLSocket.getpeercert."""
        name, organization = self.subject
        pairs = [("organizationName", organization)] if organization else []
        subject = tuple((pair,) for pair in [*pairs, ("commonName", name)])
        return {"subject": subject, "notAfter": NOT_AFTER}

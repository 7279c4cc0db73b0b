"""OpenID discovery: where others learn who signs service account tokens, and with which keys."""

import msgspec

from actors.apiserver.api.errors import ServiceUnavailable
from actors.apiserver.api.target import unknown_path
from actors.apiserver.http.authentication.signing import NoSigningKey
from actors.apiserver.http.authentication.token_authority import TokenAuthority
from actors.apiserver.http.authentication.token_claims import ISSUER
from actors.apiserver.http.connection.responses import Reply

CONFIGURATION, KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"


class OpenId:
    def __init__(self, authority: TokenAuthority, address: str) -> None:
        self._authority, self._address = authority, address

    async def reply(self, path: str) -> Reply:
        """Raises NotFound, ServiceUnavailable."""
        if path not in (CONFIGURATION, KEYS):
            raise unknown_path()
        try:
            keys = list((await self._authority.keys()).believed.values())
        except NoSigningKey as error:
            raise ServiceUnavailable(str(error)) from None
        if path == KEYS:
            return Reply(
                msgspec.json.encode({"keys": [key.jwk() for key in keys]}), media_type="application/jwk-set+json"
            )
        about = {
            "issuer": ISSUER,
            "jwks_uri": f"https://{self._address}{KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({key.algorithm for key in keys}),
        }
        return Reply(msgspec.json.encode(about))

"""Paths that are no resources: version, discovery, OpenAPI, health."""

import platform
from collections.abc import Mapping

import msgspec

from actors.apiserver.api.encoding.negotiate import wants_aggregated
from actors.apiserver.api.objects import Obj
from actors.apiserver.api.resource import Table
from actors.apiserver.api.target import unknown_path
from actors.apiserver.http.connection.responses import Reply
from actors.apiserver.http.discovery import discovery
from actors.apiserver.http.discovery.documents import OpenApi
from actors.apiserver.http.discovery.v2 import V2, V2_MEDIA, V2_PROTOBUF
from actors.apiserver.http.endpoints.health import Health
from actors.apiserver.http.endpoints.openid import OpenId

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0-nodeplane",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": f"python{platform.python_version()}",
    "platform": f"linux/{platform.machine()}",
}
ROOTS = ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"]


class Static:
    def __init__(self, table: Table, health: Health, openid: OpenId, address: str) -> None:
        self._table = table
        self._health = health
        self._openid = openid
        self._address = address
        self._openapi = OpenApi(table)

    async def reply(self, path: str, query: Mapping[str, str], accept: str) -> Reply:
        """Raises NotFound."""
        parts = path.strip("/").split("/")
        if parts[0] in ("healthz", "livez", "readyz"):
            return await self._health.reply(path, query)
        if parts[0] in (".well-known", "openid"):
            return await self._openid.reply(path)
        if parts[:2] == ["openapi", "v3"]:
            return self._document("/".join(parts[2:]))
        if parts == ["openapi", "v2"]:
            return _second(accept)
        if len(parts) == 1 and parts[0] in ("api", "apis") and wants_aggregated(accept):
            found = discovery.aggregated(self._table, core=parts[0] == "api")
            return Reply(msgspec.json.encode(found), media_type=discovery.AGGREGATED)
        body = self._body(parts)
        if body is None:
            raise unknown_path()
        return Reply(msgspec.json.encode(body))

    def _body(self, parts: list[str]) -> Obj | None:
        match parts:
            case [""]:
                return {"paths": ROOTS}
            case ["version"]:
                return dict(VERSION)
            case ["api"]:
                return discovery.core_versions(self._address)
            case ["api", version]:
                return discovery.resource_list(self._table, "", version)
            case ["apis"]:
                return discovery.group_list(self._table)
            case ["apis", group]:
                return discovery.one_group(self._table, group)
            case ["apis", group, version]:
                return discovery.resource_list(self._table, group, version)
        return None

    def _document(self, root: str) -> Reply:
        if not root:
            return Reply(msgspec.json.encode(self._openapi.index()))
        found = self._openapi.documents.get(root)
        if found is None:
            raise unknown_path()
        return Reply(found, headers={"Cache-Control": "public, immutable"})


def _second(accept: str) -> Reply:
    if "+protobuf" in accept:
        return Reply(V2_PROTOBUF, media_type=V2_MEDIA)
    return Reply(msgspec.json.encode(V2))

"""Paths that are no resources: version, discovery, OpenAPI, OpenID configuration, health, metrics."""

import asyncio
import logging
import platform
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from operator import is_not

import msgspec
from msgspec.structs import replace
from multidict import MultiMapping

from actors.apiserver.api.encoding.negotiate import wants_aggregated
from actors.apiserver.api.errors import ServiceUnavailable
from actors.apiserver.api.request.target import unknown_path
from actors.apiserver.api.request.workers import workers
from actors.apiserver.http.authentication.signing import NoSigningKey
from actors.apiserver.http.authentication.token_authority import TokenAuthority
from actors.apiserver.http.authentication.token_claims import ISSUER
from actors.apiserver.http.connection.responses import Reply
from actors.apiserver.http.endpoints import discovery
from protocols.errors import NodeplaneError
from protocols.kinds.openapi.documents import Document, OpenApi, content_hash, index, url_of
from protocols.kinds.openapi.v2 import MEDIA, as_json, as_protobuf, definitions
from protocols.kinds.served.row import Served, Table
from protocols.kube.meta import Object

Check = Callable[[], Awaitable[str]]
"""Return why a part is not ready; an empty text if it is."""
log = logging.getLogger("apiserver")
TEXT = "text/plain; charset=utf-8"
YEAR_S = 365 * 86400
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


class Health:
    """/healthz, /livez, /readyz: plain text, with a line for each part if `verbose`.

    `parts` count for readiness only: a process whose store is away is alive, and a restart would not help. Anybody may
    read the whole, so it has no reasons: these are in the log, and in the answer for a single part.
    """

    def __init__(self, parts: Mapping[str, Check]) -> None:
        self._parts = parts
        self.paths = [f"{root}/{part}" for root in HEALTH for part in ("ping", *parts)]
        self._logged: dict[str, str] = {}

    async def reply(self, path: str, query: MultiMapping[str]) -> Reply:
        root, _, part = path.strip("/").partition("/")
        if part and part not in ("ping", *self._parts):
            return Reply(b"404 page not found\n", 404, TEXT)
        if part:
            return _health_reply(f"internal server error: {why}" if (why := await self._fault(part)) else "")
        names = ["ping", *(self._parts if root == "readyz" else ())]
        excluded = dict.fromkeys(filter(None, ",".join(query.getall("exclude", [])).split(",")))
        faults = {name: await self._fault(name) for name in names if name not in excluded}
        lines = [_health_line(name, faults.get(name)) for name in names]
        if unknown := [f'"{name}"' for name in sorted(excluded) if name not in names]:
            lines.append(f"warn: some health checks cannot be excluded: no matches for {', '.join(unknown)}")
        if any(faults.values()):
            return _health_reply("\n".join((*lines, f"{root} check failed")))
        return _health_reply("", "\n".join((*lines, f"{root} check passed\n")) if "verbose" in query else "ok")

    async def _fault(self, name: str) -> str:
        """Return why a part is not well, and log it if that has changed."""
        try:
            why = "" if name == "ping" else await self._parts[name]()
        except (NodeplaneError, TimeoutError) as error:
            why = str(error) or type(error).__name__
        if why and self._logged.get(name) != why:
            log.warning("health check failed part=%s reason=%s", name, why)
        self._logged[name] = why
        return why


def _health_line(name: str, why: str | None) -> str:
    """Return the line of a part; None as the reason means that it is excluded."""
    if why is None:
        return f"[+]{name} excluded: ok"
    return f"[-]{name} failed: reason withheld" if why else f"[+]{name} ok"


def _health_reply(fault: str, text: str = "ok") -> Reply:
    body, status = (f"{fault}\n", 500) if fault else (text, 200)
    return Reply(body.encode(errors="replace"), status, TEXT, {"X-Content-Type-Options": "nosniff"})


OPENID_CONFIGURATION, OPENID_KEYS = "/.well-known/openid-configuration", "/openid/v1/jwks"
CACHED = {"Cache-Control": "public, max-age=3600"}
"""For how long verifiers of tokens may keep the documents of OpenID discovery: upstream's hour."""


class OpenId:
    """OpenID discovery: the issuer of service account tokens, and its public keys."""

    def __init__(self, authority: TokenAuthority, address: str) -> None:
        self._authority, self._address = authority, address

    async def reply(self, path: str) -> Reply:
        """Raises NotFound, ServiceUnavailable."""
        if path not in (OPENID_CONFIGURATION, OPENID_KEYS):
            raise unknown_path()
        try:
            keys = list((await self._authority.keys()).believed.values())
        except NoSigningKey as error:
            raise ServiceUnavailable(str(error)) from None
        if path == OPENID_KEYS:
            jwks = msgspec.json.encode({"keys": [key.jwk() for key in keys]})
            return Reply(jwks, media_type="application/jwk-set+json", headers=dict(CACHED))
        about = {
            "issuer": ISSUER,
            "jwks_uri": f"https://{self._address}{OPENID_KEYS}",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({key.algorithm for key in keys}),
        }
        return Reply(msgspec.json.encode(about), headers=dict(CACHED))


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
HEALTH = ["/healthz", "/livez", "/readyz"]
DOCUMENTS = [OPENID_CONFIGURATION, OPENID_KEYS, "/openapi/v2", "/openapi/v3"]
ROOTS = ["/api", "/api/v1", "/apis", *HEALTH, "/metrics", *DOCUMENTS, "/version"]


class NonResourceOptions(msgspec.Struct):
    """Sources of the documents."""

    table: Table
    health: Health
    openid: OpenId
    metrics: Callable[[], Awaitable[str]]
    """Return this process's metrics in Prometheus' text format."""
    address: str
    """Host and port of the API."""


class NonResource:
    """GET of paths that are no resources; the OpenAPI v2 document is cached until a v3 one changes."""

    def __init__(self, options: NonResourceOptions) -> None:
        self._table = options.table
        self._health = options.health
        self._openid = options.openid
        self._metrics = options.metrics
        self._address = options.address
        self._openapi, self._making = OpenApi(options.table), asyncio.Lock()
        self._groups: dict[bool, tuple[tuple[Served, ...], Reply]] = {}
        """Aggregated discovery of the core group and of all others, and the resources that it was made of."""
        self._v2: dict[bool, tuple[list[bytes], Reply]] = {}
        """The v2 document as JSON and as protobuf, and the v3 documents that it was made of."""

    async def reply(self, path: str, query: MultiMapping[str], headers: Mapping[str, str]) -> Reply:
        """Raises NotFound."""
        parts, accept = path.strip("/").split("/"), headers.get("Accept", "")
        if f"/{parts[0]}" in HEALTH:
            return await self._health.reply(path, query)
        if parts == ["metrics"]:
            return Reply((await self._metrics()).encode(), media_type=PROMETHEUS)
        if parts[0] in (".well-known", "openid"):
            return await self._openid.reply(path)
        if parts[:2] == ["openapi", "v3"]:
            return _unless_known(await self._document("/".join(parts[2:]), query.get("hash", "")), headers)
        if parts == ["openapi", "v2"]:
            return _unless_known(await self._openapi_v2("+protobuf" in accept), headers)
        if len(parts) == 1 and parts[0] in ("api", "apis") and wants_aggregated(accept):
            return _unless_known(self._aggregated(core=parts[0] == "api"), headers)
        body = self._body(parts)
        if body is None:
            raise unknown_path()
        return Reply(msgspec.json.encode(body))

    def _aggregated(self, core: bool) -> Reply:
        rows, reply = self._groups.get(core, ((), Reply(b"")))
        if rows is not self._table.rows:
            groups = msgspec.json.encode(discovery.aggregated(self._table, core))
            rows, reply = self._groups[core] = self._table.rows, _tagged(groups, discovery.AGGREGATED)
        return reply

    def _body(self, parts: list[str]) -> Object | None:
        match parts:
            case [""]:
                return {"paths": self._paths()}
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

    def _paths(self) -> list[str]:
        groups = {name: versions for name, versions in self._table.versions().items() if name}
        versions = [f"/apis/{name}/{version}" for name, versions in groups.items() for version in versions]
        return sorted((*ROOTS, *self._health.paths, *(f"/apis/{name}" for name in groups), *versions))

    async def _documents(self) -> dict[str, Document]:
        """Return the v3 documents. All who wait get what one of them makes in a thread: a user has few turns there."""
        async with self._making:
            current = self._openapi.current()
            return await workers().run(self._openapi.made) if current is None else current

    async def _openapi_v2(self, protobuf: bool) -> Reply:
        documents = [made.body for made in (await self._documents()).values()]
        async with self._making:
            held, reply = self._v2.get(protobuf, ([], Reply(b"")))
            if len(held) != len(documents) or any(map(is_not, held, documents)):
                write, media = (as_protobuf, MEDIA) if protobuf else (as_json, "application/json")
                reply = await workers().run(lambda: _tagged(write(definitions(documents)), media))
                self._v2[protobuf] = documents, reply
        return reply

    async def _document(self, root: str, wanted: str) -> Reply:
        """Return a document. It may be cached for ever under its own hash only; another hash leads there."""
        if not root:
            return _tagged(msgspec.json.encode(index(await self._documents())))
        document = (await self._documents()).get(root)
        if document is None:
            raise unknown_path()
        if wanted and wanted != document.hash:
            return Reply(b"", 301, headers={"Location": url_of(root, document)})
        expires = {"Expires": formatdate(time.time() + YEAR_S, usegmt=True)}  # without it clients ask again
        lasting = {"Cache-Control": "public, immutable", **expires} if wanted else {}
        return Reply(document.body, headers={**lasting, "ETag": f'"{document.hash}"'})


def _tagged(body: bytes, media_type: str = "application/json") -> Reply:
    return Reply(body, media_type=media_type, headers={"ETag": f'"{content_hash(body)}"'})


def _unless_known(reply: Reply, headers: Mapping[str, str]) -> Reply:
    """Return a document with its ETag, or 304 if the client has it already."""
    known = [tag.strip().removeprefix("W/") for tag in headers.get("If-None-Match", "").split(",")]
    kept = {**reply.headers, "Vary": "Accept"}
    if kept.get("ETag") in known or ("*" in known and "ETag" in kept):
        return Reply(b"", 304, reply.media_type, kept)
    return replace(reply, headers=kept)

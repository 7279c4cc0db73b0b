"""A small client of the Kubernetes API: JSON over HTTPS, a deadline on every request.

Reads are repeated while the API is away, writes only when nothing can have been sent; everything else is the caller's.
"""

import asyncio
import re
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from protocols.http1.client import HttpClient
from protocols.http1.connection import Address, NotSent, Refused
from protocols.http1.response import HttpFailed, Response
from protocols.kinds.table import Resource
from protocols.kube.errors import ApiAway, ApiError, CredentialsUnusable, EventInvalid
from protocols.kube.jsons import read_json_object
from protocols.kube.meta import Object, name_of, namespace_of, version_of
from protocols.kubeclient.kubeconfig import ClientOptions
from protocols.kubeclient.part import user_agent
from protocols.process.rates import backoff_delay
from protocols.process.tls import Renewed, client_context

LINE_LIMIT = 16 << 20
"""Bytes one event may have."""
ANSWER_LIMIT = 256 << 20
"""Bytes of an answer, which may be a page of 500 large objects."""
FAILURE_LIMIT = 1 << 20
"""Bytes that are read of an error in place of a watch."""
TOKEN_LIMIT = 64 << 10
"""Bytes of a bearer token, more than a server takes in its headers."""
TOKEN = re.compile(rb"[!-~]{1,%d}" % TOKEN_LIMIT)
CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED"})

T = TypeVar("T", bound=Mapping[str, Any])


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield whole lines, however they are cut into chunks; a last line that is incomplete is dropped."""
    rest: list[bytes] = []
    size = 0
    async for chunk in chunks:
        first, *lines = chunk.split(b"\n")
        rest.append(first)
        size += len(first)
        if size > LINE_LIMIT:
            raise EventInvalid(f"a watch event is larger than {LINE_LIMIT} bytes")
        if not lines:
            continue
        yield b"".join(rest)
        for line in lines[:-1]:
            yield line
        rest, size = [lines[-1]], len(lines[-1])


def event_of(line: bytes) -> Object:
    """One event. Raises ApiError for an ERROR event, EventInvalid for what is none."""
    try:
        event = read_json_object(line)
    except msgspec.DecodeError as error:
        raise EventInvalid(f"a watch line is not a JSON object: {error}") from None
    kind, obj = event.get("type"), event.get("object")
    if not isinstance(obj, dict):
        raise EventInvalid(f"a watch event of type {kind!r} has no object")
    if kind == "ERROR":
        code = obj.get("code")
        raise ApiError(code if isinstance(code, int) else 500, obj)
    if kind not in CHANGES and kind != "BOOKMARK":
        raise EventInvalid(f"a watch event has the unknown type {kind!r}")
    if not version_of(obj) or (kind in CHANGES and not name_of(obj)):
        raise EventInvalid(f"a watch event of type {kind} has no name or no resourceVersion")
    return event


__all__ = ["ApiAway", "ApiClient", "ApiError", "ClientOptions", "Object", "find"]

PATCH_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
JSON = "application/json"
APPLY = "application/apply-patch+yaml"
RETRY_FIRST_S, RETRY_MOST_S = 0.02, 0.5
COLLECTION_S = 60.0
"""Longest deletion of a collection: kube-apiserver ends requests that are not watches after a minute."""
SAFE = "/:@!$&'()*+,;=~"
"""Characters of a path that are sent as they are, beside letters, digits and `_.-`."""
REQUESTS = 64
"""Connections for requests. Each watch has one of its own besides: the caller bounds their number."""


class ServerAccess(NamedTuple):
    """The server, and what authenticates a request to it."""

    server: str
    tls: ssl.SSLContext
    server_name: str | None
    headers: dict[str, str]


class ApiClient:
    """Use it in one event loop, between start() and close()."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self.streams = True
        """False once the server has rejected a watch that begins with all objects."""
        server = urlsplit(options.server)
        self._host, self._prefix = server.netloc, server.path.rstrip("/")
        self._client: HttpClient | None = None
        self._contexts: Renewed[ssl.SSLContext] | None = None
        self._token: Renewed[str] | None = None

    async def start(self) -> None:
        """Raises CredentialsUnusable."""
        options = self._options
        if options.token_file is not None:
            self._token = Renewed((options.token_file,), partial(_read_token, options.token_file), "token")
        self._contexts = Renewed((options.ca, options.cert, options.key), partial(_tls, options))
        server = urlsplit(options.server)
        address = Address(server.hostname or "", server.port or 443, self._contexts.now, options.server_name)
        self._client = HttpClient(address, REQUESTS)

    async def close(self) -> None:
        if self._client is not None:
            self._client.close()

    async def get(self, resource: Resource, name: str, namespace: str = "", timeout: float | None = None) -> Object:
        return await self._read(resource.path(name, namespace), {}, timeout)

    async def list(
        self, resource: Resource, namespace: str = "", *, query: Mapping[str, str] | None = None,
        field_selector: str = "", label_selector: str = "", timeout: float | None = None,
    ) -> Object:  # fmt: skip
        """Return the List object as served, with items and metadata.resourceVersion."""
        parameters = dict(query or {}) | _selectors(field_selector, label_selector)
        return await self._read(resource.path("", namespace), parameters, timeout)

    async def create(
        self, resource: Resource, obj: Mapping[str, Any], namespace: str = "", subresource: str = "", *,
        query: dict[str, str] | None = None,
    ) -> Object:  # fmt: skip
        """Create an object, or with `subresource` (and the object's own name) post to e.g. pods/NAME/binding."""
        name = obj["metadata"]["name"] if subresource else ""
        path = resource.path(name, namespace, subresource)
        return await self._repeat("POST", path, query or {}, _json(obj), JSON, None)

    async def update(self, resource: Resource, obj: T, namespace: str = "", subresource: str = "") -> T:
        name = obj["metadata"]["name"]
        return cast("T", await self._write("PUT", resource.path(name, namespace, subresource), _json(obj)))

    async def patch(
        self, resource: Resource, name: str, namespace: str = "", body: Any = None, *, kind: str = "merge",
        subresource: str = "", timeout: float | None = None,
    ) -> Object:  # fmt: skip
        """Patch an object; `kind` is merge, strategic or json."""
        path = resource.path(name, namespace, subresource)
        return await self._write("PATCH", path, _json(body), PATCH_TYPES[kind], timeout)

    async def apply(
        self, resource: Resource, obj: Mapping[str, Any], manager: str, subresource: str = "", *, force: bool = True
    ) -> Object:
        """Apply an object server-side; without `force` changed fields of other managers are a conflict (409)."""
        path = resource.path(name_of(obj), namespace_of(obj), subresource)
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        return await self._repeat("PATCH", path, query, _json(obj), APPLY, None)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", *, grace: int | None = None, uid: str = "",
        version: str = "", policy: str = "",
    ) -> Object:  # fmt: skip
        """Delete an object.

        `uid` and `version` are preconditions (409 if they differ). `policy` is the propagation policy for dependents.
        """
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if uid or version:
            wanted = {"uid": uid, "resourceVersion": version}
            options["preconditions"] = {field: value for field, value in wanted.items() if value}
        if policy:
            options["propagationPolicy"] = policy
        return await self._write("DELETE", resource.path(name, namespace), _json(options))

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, field_selector: str = "", policy: str = ""
    ) -> None:
        """Delete the objects of a namespace, or of a cluster-scoped kind, that the selector matches.

        The server answers when it has deleted all of them, so it is waited for as long as it may work on one request.
        `policy` is the propagation policy for dependents; empty: the kind's default.
        """
        query = {**_selectors(field_selector, ""), **({"propagationPolicy": policy} if policy else {})}
        await self._repeat("DELETE", resource.path("", namespace), query, b"", JSON, COLLECTION_S)

    async def text(self, path: str, query: Mapping[str, str], limit: int) -> str:
        """Return the first `limit` bytes of a page that is no JSON, such as a log. Raises ApiError, ApiAway.

        Asked once: a caller that shows a page asks again by itself.
        """
        seconds = self._options.timeout
        try:
            async with (
                asyncio.timeout(seconds),
                self._http().stream(self._request("GET", path, query), seconds) as answer,
            ):
                page = await _beginning(answer.chunks(seconds), limit)
        except (HttpFailed, TimeoutError) as error:
            raise ApiAway(f"GET {path}: {_text(error)}") from None
        if answer.status != 200:
            raise _failure(answer.response(page))
        return page.decode(errors="replace")

    async def watch(
        self, resource: Resource, namespace: str = "", *, query: Mapping[str, str], silence: float
    ) -> AsyncIterator[Object]:
        """Events until the server's clean end.

        Raises ApiError (also for an ERROR event's Status), ApiAway on a broken connection or `silence` seconds without
        a byte, EventInvalid on a line that is no event.
        """
        request = self._request("GET", resource.path("", namespace), {"watch": "true", **query})
        try:
            async with self._http().stream(request, silence) as answer:
                if answer.status != 200:
                    raise _failure(answer.response(await _beginning(answer.chunks(silence), FAILURE_LIMIT)))
                async for line in lines_of(answer.chunks(silence)):
                    yield event_of(line)
        except (HttpFailed, TimeoutError) as error:
            raise ApiAway(f"watch of {resource.plural} broke: {_text(error)}") from None

    async def _read(self, path: str, query: Mapping[str, str], timeout: float | None) -> Object:
        return await self._repeat("GET", path, dict(query), None, "", timeout)

    async def _write(
        self, method: str, path: str, body: bytes, media: str = JSON, timeout: float | None = None
    ) -> Object:
        return await self._repeat(method, path, {}, body, media, timeout)

    async def _repeat(
        self, method: str, path: str, query: dict[str, str], body: bytes | None, media: str, timeout: float | None
    ) -> Object:
        began = time.monotonic()
        end = began + (timeout or self._options.timeout)
        tries = 0
        while True:
            tries += 1
            pause = backoff_delay(tries, RETRY_FIRST_S, RETRY_MOST_S)
            try:
                return await self._once(method, path, query, body, media, end - time.monotonic())
            except (HttpFailed, TimeoutError) as error:
                sent = body is not None and not isinstance(error, NotSent)
                last = min(end, began + self._options.refused_s) if isinstance(error, Refused) else end
                if sent or time.monotonic() + pause >= last:
                    raise ApiAway(f"{method} {path}: {_text(error)}") from None
            except ApiError as error:
                pause = max(pause, error.retry_after or 0)
                if error.retry_after is None or time.monotonic() + pause >= end:
                    raise
            await asyncio.sleep(pause)

    async def _once(
        self, method: str, path: str, query: dict[str, str], body: bytes | None, media: str, left: float
    ) -> Object:
        request = self._request(method, path, query, body, media)
        answer = await self._http().request(request, ANSWER_LIMIT, max(0.05, left))
        if answer.status >= 300:
            raise _failure(answer)
        try:
            return read_json_object(answer.body)
        except msgspec.DecodeError as error:
            raise ApiAway(f"{method} {path}: the answer is not a JSON object: {_text(error)}") from None

    def _request(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None = None, media: str = ""
    ) -> bytes:
        """Return a request as it is sent."""
        target = f"{self._prefix}{quote(path, SAFE)}"
        if query:
            target = f"{target}?{urlencode(query)}"
        agent, accept = user_agent(self._options.user_agent), self._options.accept
        head = f"{method} {target} HTTP/1.1\r\nHost: {self._host}\r\nUser-Agent: {agent}\r\nAccept: {accept}\r\n"
        for name, value in self._bearer().items():
            head = f"{head}{name}: {value}\r\n"
        if body is None:
            return f"{head}\r\n".encode()
        return f"{head}Content-Type: {media}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    def access(self) -> ServerAccess:
        """Return what a connection to the server needs that is not made here, such as that of an exec."""
        return ServerAccess(self._options.server, self._now(), self._options.server_name, self._bearer())

    def _now(self) -> ssl.SSLContext:
        """Return the current TLS context; connections of an older one are not reused."""
        if self._contexts is None:
            raise RuntimeError("ApiClient.start() was not called")
        return self._contexts.now()

    def _bearer(self) -> dict[str, str]:
        return {} if self._token is None else {"Authorization": f"Bearer {self._token.now()}"}

    def _http(self) -> HttpClient:
        """Raises ApiAway once the client is closed: tasks of a stopping process end by cancellation, not by a fault."""
        if self._client is None:
            raise RuntimeError("ApiClient.start() was not called")
        if self._client.closed:
            raise ApiAway("this client is closed")
        return self._client


class Getter(Protocol):
    """A reader of single objects: a client, or a recording. Raises ApiAway, ApiError."""

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object: ...


async def find(client: Getter, resource: Resource, name: str, namespace: str = "") -> Object | None:
    """Return an object, None if there is none of this name. Raises ApiAway, ApiError."""
    try:
        return await client.get(resource, name, namespace)
    except ApiError as error:
        if error.code == 404:
            return None
        raise


async def _beginning(chunks: AsyncIterator[bytes], limit: int) -> bytes:
    """Return at most the first `limit` bytes of a body."""
    parts, size = list[bytes](), 0
    async for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size >= limit:
            break
    return b"".join(parts)[:limit]


def _failure(answer: Response) -> ApiError:
    retry_after = _retry_after(answer.status, answer.headers.get(b"retry-after", b""))
    return error_of(answer.status, answer.body, retry_after)


def error_of(code: int, text: bytes, retry_after: float | None = None) -> ApiError:
    """Return the error of an answer: its Status, or the beginning of what it has in place of one."""
    try:
        status = read_json_object(text)
    except msgspec.DecodeError:
        status = {"message": f"the API answered {code}: {text[:200].decode(errors='replace')}"}
    return ApiError(code, status, retry_after)


def _retry_after(code: int, header: bytes) -> float | None:
    """429 and 503 with the header were not carried out, so even a write may be sent again."""
    return float(header) if code in (429, 503) and header.isdigit() else None


def _tls(options: ClientOptions) -> ssl.SSLContext:
    try:
        context = client_context(options.ca)
        if options.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if options.cert is not None:
            context.load_cert_chain(str(options.cert), str(options.key))
    except (OSError, ssl.SSLError) as error:
        files = ", ".join(str(path) for path in (options.ca, options.cert, options.key) if path is not None)
        raise CredentialsUnusable(
            f"cannot use {files}: {_text(error)};"
            " if they are a plane's, the next `nodeplane up` makes new ones once they are removed"
        ) from None
    return context


def _read_token(path: Path) -> str:
    try:
        with path.open("rb") as file:
            token = file.read(TOKEN_LIMIT + 1).strip()
    except OSError as error:
        raise CredentialsUnusable(f"cannot read the token in {path}: {error.strerror}") from None
    if not TOKEN.fullmatch(token):
        raise CredentialsUnusable(f"{path} holds no token: 1 to {TOKEN_LIMIT} visible ASCII characters")
    return token.decode()


def _selectors(field: str, label: str) -> dict[str, str]:
    return {name: text for name, text in (("fieldSelector", field), ("labelSelector", label)) if text}


def _json(obj: Any) -> bytes:
    return msgspec.json.encode(obj)


def _text(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__

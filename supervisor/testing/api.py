"""A small blocking client of a plane's API, with the rights of its administrator and one idle connection."""

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from protocols.kube.jsons import read_json_object
from protocols.process.layout import Layout
from protocols.process.settings import load_settings
from supervisor.base.errors import SupervisorError

TIMEOUT_S = 30.0
APPLY = "application/apply-patch+yaml"
MAX_ANSWER = 64 << 20


class ApiError(SupervisorError, grpc="UNKNOWN"):
    """Raised for an answer that is an error; `code` is the HTTP status, `reason` that of the API."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class Api:
    """Use it from one thread at a time, and `close` it."""

    def __init__(self, where: Layout) -> None:
        settings = load_settings(where.settings)
        self._server = urlsplit(settings.api_url)
        self._tls = ssl.create_default_context(cafile=str(where.ca_cert))
        self._tls.load_cert_chain(*map(str, where.client_cert("admin")))
        self._connection: http.client.HTTPSConnection | None = None
        self._kinds: dict[tuple[str, str], tuple[str, bool]] = {}

    def __enter__(self) -> "Api":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._connection:
            self._connection.close()
            self._connection = None

    def get(self, path: str, query: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Raises ApiError, OSError."""
        return self.ask("GET", path, query=query)

    def apply(self, manifest: dict[str, Any], manager: str = "nodeplane-test") -> dict[str, Any]:
        """Apply an object on the server's side, as `kubectl apply --server-side --force-conflicts`."""
        query = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict"}
        return self.ask("PATCH", self.path_of(manifest), manifest, query, APPLY)

    def delete(self, path: str, grace_s: int | None = None) -> None:
        """Delete an object, or every one of a collection; one that is gone is no error."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        try:
            self.ask("DELETE", path, options)
        except ApiError as error:
            if error.code != 404:
                raise

    def path_of(self, manifest: Mapping[str, Any]) -> str:
        """Return the path of an object; one of a namespaced kind without a namespace is in `default`."""
        version, kind = str(manifest.get("apiVersion", "")), str(manifest.get("kind", ""))
        metadata = manifest.get("metadata") or {}
        plural, namespaced = self._kind(version, kind)
        within = f"/namespaces/{metadata.get('namespace') or 'default'}" if namespaced else ""
        return f"{_base(version)}{within}/{plural}/{metadata.get('name', '')}"

    def is_namespaced(self, version: str, kind: str) -> bool:
        return self._kind(version, kind)[1]

    def _kind(self, version: str, kind: str) -> tuple[str, bool]:
        if not version or not kind:
            raise ApiError(400, "BadRequest", f"an object needs apiVersion and kind: here {version!r} and {kind!r}")
        if (version, kind) not in self._kinds:
            for row in self.get(_base(version)).get("resources", ()):
                if "/" not in row["name"]:
                    self._kinds[version, row["kind"]] = (row["name"], row["namespaced"])
        try:
            return self._kinds[version, kind]
        except KeyError:
            raise ApiError(404, "NotFound", f"the API serves no kind {kind!r} of {version!r}") from None

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, str] | None = None,
        content: str = "application/json",
    ) -> dict[str, Any]:
        """Return the answer's object. A connection that was idle and has ended is made again once."""
        target = f"{path}?{urlencode(query)}" if query else path
        encoded = json.dumps(body).encode() if body is not None else None
        headers = {"Accept": "application/json", "Content-Type": content}
        if self._connection:
            try:
                return self._exchange(self._connection, method, target, encoded, headers)
            except TimeoutError:
                self.close()
                raise  # the request may have taken effect
            except (OSError, http.client.HTTPException):
                self.close()
        self._connection = http.client.HTTPSConnection(
            self._server.hostname or "", self._server.port, timeout=TIMEOUT_S, context=self._tls
        )
        try:
            return self._exchange(self._connection, method, target, encoded, headers)
        except http.client.HTTPException as error:
            raise OSError(f"the API broke off: {error!r}") from None

    def _exchange(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> dict[str, Any]:
        connection.request(method, target, body, dict(headers))
        answer = connection.getresponse()
        body = answer.read(MAX_ANSWER)
        try:
            decoded = read_json_object(body or b"{}")
        except msgspec.DecodeError:
            raise ApiError(
                answer.status, "", f"the answer is no JSON object ({answer.status} {answer.reason})"
            ) from None
        if answer.status >= 400:
            raise ApiError(answer.status, str(decoded.get("reason", "")), str(decoded.get("message", answer.reason)))
        return decoded


def _base(version: str) -> str:
    """Return the path of an apiVersion: the core group has one of its own."""
    return f"/apis/{version}" if "/" in version else f"/api/{version}"

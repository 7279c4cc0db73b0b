"""A server of admission webhooks with a certificate of its own, on every address of this machine."""

import base64
import http.server
import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.authority import write_self_signed

Object = dict[str, Any]
Respond = Callable[[Object], Object]
HOSTS = ("hook.default.svc", "127.0.0.1")


class Hooks(http.server.ThreadingHTTPServer):
    """A server of webhooks by their path, with the reviews that it got."""

    daemon_threads = True

    def __init__(self, directory: Path) -> None:
        super().__init__(("", 0), _Handler)
        self.responses: dict[str, Respond] = {}
        self.reviews: list[tuple[str, Object]] = []
        self.leave = threading.Event()
        self.ca = base64.b64encode(write_self_signed(directory, "hook", HOSTS)).decode()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "hook.crt", directory / "hook.key")
        self.socket = context.wrap_socket(self.socket, server_side=True)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that left is no news."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Hooks

    def do_POST(self) -> None:  # the name that http.server wants
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0].strip("/")
        self.server.reviews.append((self.path, review))
        response = {"uid": review["request"]["uid"], **self.server.responses[path](review["request"])}
        body = json.dumps({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

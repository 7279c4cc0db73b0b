"""A server of admission webhooks with a certificate of its own, on every address of this machine."""

import base64
import datetime
import http.server
import ipaddress
import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Object = dict[str, Any]
Respond = Callable[[Object], Object]


class Hooks(http.server.ThreadingHTTPServer):
    """A server of webhooks by their path, with the reviews that it got."""

    daemon_threads = True

    def __init__(self, directory: Path) -> None:
        super().__init__(("", 0), _Handler)
        self.responses: dict[str, Respond] = {}
        self.reviews: list[tuple[str, Object]] = []
        self.leave = threading.Event()
        self.ca = base64.b64encode(_issue(directory)).decode()
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


def _issue(directory: Path) -> bytes:
    """Write a certificate for this machine and hook.default.svc, signed by itself; return it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hook")])
    hosts = [x509.DNSName("hook.default.svc"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = made.public_bytes(serialization.Encoding.PEM)
    (directory / "hook.crt").write_bytes(pem)
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (directory / "hook.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return pem

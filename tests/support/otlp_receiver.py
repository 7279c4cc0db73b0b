"""An OTLP/HTTP receiver made from the protocol's own package: it stores the spans that are posted to it."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


class Received(NamedTuple):
    """One span with the attributes of its resource."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    start: int
    end: int
    error: bool
    attributes: dict[str, str]
    resource: dict[str, str]


class Receiver:
    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.requests: list[str] = []
        """Path and content type of each request."""
        self.key = ""
        """Header `api-key` of the newest request."""
        self.status = 200
        """Answer to send; 200 stores the spans."""
        self.url = ""

    def take(self, body: bytes) -> None:
        for part in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = texts(part.resource.attributes)
            for scope in part.scope_spans:
                self.spans += [received(span, resource) for span in scope.spans]


def received(span: Any, resource: dict[str, str]) -> Received:
    return Received(
        name=span.name,
        trace=span.trace_id.hex(),
        id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        kind=span.kind,
        start=span.start_time_unix_nano,
        end=span.end_time_unix_nano,
        error=span.status.code == 2,
        attributes=texts(span.attributes),
        resource=resource,
    )


def texts(attributes: Any) -> dict[str, str]:
    return {attribute.key: attribute.value.string_value for attribute in attributes}


@contextmanager
def otlp_receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.requests.append(f"{self.path} {self.headers['Content-Type']}")
            receiver.key = self.headers.get("api-key", "")
            if receiver.status == 200:
                receiver.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(receiver.status)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

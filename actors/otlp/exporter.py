"""Post spans to the receiver with the SDK's exporter, in a thread: it blocks, and retries until its deadline."""

import logging
import socket
from collections.abc import Iterable, Iterator
from itertools import islice

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from actors.otlp.bounded_session import BoundedSession
from actors.otlp.mapping import Mapper
from protocols.messages.trace import Span
from protocols.trace import wall_offset
from protocols.version import installed_version

TIMEOUT_S = 10.0
"""Deadline of one request with its retries."""
BATCH = 512
"""Most spans of one request."""
logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # failures are counted and logged once here


class Exporter:
    """Connection to one receiver."""

    def __init__(self, url: str, node: str) -> None:
        self._exporter = OTLPSpanExporter(endpoint=url, timeout=TIMEOUT_S, session=BoundedSession(TIMEOUT_S))
        self._mapper = Mapper(node, socket.gethostname(), installed_version())

    def export(self, pods: Iterable[list[Span]]) -> tuple[int, int]:
        """Export the spans of some pods and return how many were sent, and how many not. Blocks: call it in a thread.

        After a failure the rest is not tried: a receiver that is away would cost its deadline for each batch.
        """
        sent = failed = 0
        for batch in self._batches(pods):
            if failed or self._exporter.export(batch) is not SpanExportResult.SUCCESS:
                failed += len(batch)
            else:
                sent += len(batch)
        return sent, failed

    def close(self) -> None:
        """End requests in progress."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]  # the library leaves it untyped

    def _batches(self, pods: Iterable[list[Span]]) -> Iterator[list[ReadableSpan]]:
        offset = wall_offset()
        spans = (span for pod in pods for span in self._mapper.spans(pod, offset))
        while batch := list(islice(spans, BATCH)):
            yield batch

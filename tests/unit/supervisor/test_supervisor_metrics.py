"""Joining pages, and refusing what is no request."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from supervisor.pki import certificates
from supervisor.report.http import REASONS, ReportRequest, read_request
from supervisor.report.metrics import merge, own_text

A = """\
# HELP process_open_fds Open files.
# TYPE process_open_fds gauge
process_open_fds 7.0
# HELP kubelet_x_total Upstream's.
# TYPE kubelet_x_total counter
kubelet_x_total{code="1"} 3.0
# HELP lat Latency.
# TYPE lat histogram
lat_bucket{le="1.0"} 1.0
lat_bucket{le="+Inf"} 2.0
lat_count 2.0
lat_sum 3.5
"""
B = """\
# HELP process_open_fds Open files.
# TYPE process_open_fds gauge
process_open_fds 9.0
# TYPE kubelet_x_total counter
kubelet_x_total{code="2"} 4.0
# TYPE lat histogram
lat_count 5.0
"""


def test_merge_two_texts_is_one_page() -> None:
    lines = merge({"a": A, "b": B}).splitlines()
    assert lines.count("# TYPE process_open_fds gauge") == 1
    assert 'process_open_fds{actor="a"} 7.0' in lines
    assert 'process_open_fds{actor="b"} 9.0' in lines
    assert 'kubelet_x_total{code="1"} 3.0' in lines, "upstream's names keep their labels"
    assert 'lat_count{actor="a"} 2.0' in lines, "unless two would clash"
    assert 'lat_bucket{le="1.0"} 1.0' in lines


def test_merge_page_parses_with_whole_families() -> None:
    families = {family.name: family for family in text_string_to_metric_families(merge({"a": A, "b": B}))}
    assert len(families["lat"].samples) == 5
    assert families["lat"].type == "histogram"


def test_merge_labels_with_braces_are_kept() -> None:
    page = merge({"a": 'nodeplane_x{reason="a b} c",q="1"} 1 1700000000\n'})
    assert 'nodeplane_x{reason="a b} c",q="1",actor="a"} 1 1700000000' in page


def test_merge_label_with_another_end_of_line_stays_one_line() -> None:
    page = merge({"a": 'plugins{path="/x\u2028y 1"} 1.0\n'})
    assert page.split("\n")[1] == 'plugins{path="/x\u2028y 1"} 1.0'


def test_merge_own_actor_label_is_kept() -> None:
    assert 'nodeplane_up{actor="z"} 1' in merge({"a": 'nodeplane_up{actor="z"} 1\n'})


def test_merge_garbage_lines_are_left_out() -> None:
    assert merge({"a": "}{ what\n\n# nonsense\nx 1\n"}) == "# TYPE x untyped\nx 1\n"


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "/metrics"),
        (b"GET /metrics?x=1 HTTP/1.0\r\n\r\n", "/metrics?x=1"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"\x16\x03\x01\x02\x00\x01\n", 400),
        (b"GET /metrics SPDY/3\r\n\r\n", 400),
        (b"GET /metrics", 400),
        (b"x" * 70_000, 400),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 200, 400),
    ],
)
async def test_read_request_any_bytes_gives_path_or_code(data: bytes, answer: str | int) -> None:
    assert await read(data) == (ReportRequest(answer) if isinstance(answer, str) else answer)


async def read(data: bytes) -> ReportRequest | int:
    reader = asyncio.StreamReader(limit=8192)
    reader.feed_data(data)
    reader.feed_eof()
    return await read_request(reader)


def test_phrases_of_statuses_are_those_of_http() -> None:
    assert (REASONS[400], REASONS[503]) == ("Bad Request", "Service Unavailable")


@pytest.mark.parametrize(
    ("header", "reads"),
    [
        (b"Accept-Encoding: gzip", True),
        (b"accept-encoding:deflate, GZIP;q=0.5 , br", True),
        (b"Accept-Encoding: gzip;q=1.0,identity", True),
        (b"Accept-Encoding: gzip;q=0", False),
        (b"Accept-Encoding: gzip; q=0.00, br", False),
        (b"Accept-Encoding: x-gzip", False),
        (b"Accept-Encoding: identity", False),
        (b"X-Accept-Encoding: gzip", False),
    ],
)
async def test_request_of_a_client_that_reads_gzip_is_known(header: bytes, reads: bool) -> None:
    assert await read(b"GET /metrics HTTP/1.1\r\n" + header + b"\r\n\r\n") == ReportRequest("/metrics", reads)


def test_own_text_has_the_end_of_certificates_if_there_are_any(tmp_path: Path) -> None:
    tree: Any = SimpleNamespace(children={})
    assert "certificates" not in own_text(tree, 0.0)
    assert certificates.expiry(tmp_path) is None
    (tmp_path / certificates.MANIFEST).write_bytes(b'{"wanted": {"certificates": []}, "not_after": 4e9}')
    families = text_string_to_metric_families(own_text(tree, 0.0, certificates.expiry(tmp_path)))
    found = {family.name: family.samples[0].value for family in families if family.samples}
    assert found["nodeplane_certificates_expiration_timestamp_seconds"] == 4e9

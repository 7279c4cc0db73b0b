"""Waits of the tests: one that ends in vain says what it last saw."""

import ast
import asyncio
import io
import ssl
import urllib.error
from collections.abc import Callable, Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from tests.support import plane_client
from tests.support.apiserver_plane import Plane
from tests.support.waiting import Late, until, until_async

TESTS = Path(__file__).parents[2]


def in_turn(*answers: object) -> Callable[[], Any]:
    left = list(answers)

    def holds() -> Any:
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return holds


def wait(holds: Callable[[], Any], timeout: float = 60.0, **options: Any) -> Any:
    return until("it", holds, timeout, 0.001, **options)


def wait_in_a_loop(holds: Callable[[], Any], timeout: float = 60.0, **options: Any) -> Any:
    return asyncio.run(until_async("it", holds, timeout, 0.001, **options))


both = pytest.mark.parametrize("wait", [wait, wait_in_a_loop])


@both
def test_wait_goes_on_over_errors_until_the_answer_is_good(wait: Callable[..., Any]) -> None:
    assert wait(in_turn(0, ConnectionRefusedError(), 3)) == 3
    assert wait(in_turn(500, 200), good=lambda status: status == 200) == 200


@both
def test_wait_in_vain_shows_the_last_error(wait: Callable[..., Any]) -> None:
    with pytest.raises(Late, match=r"it did not come about within 0.02 s; last: SSLError\('certificate verify failed'"):
        wait(in_turn(ssl.SSLError("certificate verify failed")), 0.02)


@both
def test_wait_in_vain_shows_the_last_answer(wait: Callable[..., Any]) -> None:
    with pytest.raises(Late, match="last: 503"):
        wait(in_turn(503), 0.02, good=lambda status: status == 200)


@both
def test_wait_closes_what_an_answer_that_is_an_error_holds(wait: Callable[..., Any]) -> None:
    body = io.BytesIO(b"not yet")
    missing = urllib.error.HTTPError("http://127.0.0.1/", 404, "Not Found", Message(), body)
    assert wait(in_turn(missing, 3)) == 3
    assert body.closed


def test_wait_for_an_object_shows_why_nobody_answered(tmp_path: Any) -> None:
    """The object is {} either way: not there, or nobody to ask."""
    with pytest.raises(Late, match=r"last: \{\}; below it: GET /api/v1/nodes: FileNotFoundError"):
        wait(lambda: plane_client.read_object(tmp_path, "/api/v1/nodes"), 0.02)


def test_plane_that_does_not_get_ready_shows_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.apiserver_plane.READY_SECONDS", 0.02)
    plane = Plane()
    try:
        with pytest.raises(AssertionError, match=r"the plane is ready .* last: ConnectionRefused"):
            plane.wait_ready()
    finally:
        plane.close()


def silent_waits(tree: ast.AST) -> Iterator[int]:
    """Yield the lines of loops that poll until a bare timeout or an assertion without a message ends them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncWith) and any("timeout(" in ast.unparse(item) for item in node.items):
            yield from (
                each.lineno for each in node.body if isinstance(each, ast.While) and "sleep(" in ast.unparse(each)
            )
        elif isinstance(node, ast.While):
            clocks = (
                each
                for each in ast.walk(node)
                if isinstance(each, ast.Assert) and "monotonic()" in ast.unparse(each.test)
            )
            yield from (each.lineno for each in clocks if each.msg is None)


def test_no_wait_of_the_tests_ends_without_what_it_saw() -> None:
    texts = {path: path.read_text() for path in sorted(TESTS.rglob("*.py"))}
    assert len(texts) > 500
    polling = {path: text for path, text in texts.items() if "while " in text and ("sleep(" in text or "mono" in text)}
    silent = [
        f"{path.relative_to(TESTS)}:{line}" for path, text in polling.items() for line in silent_waits(ast.parse(text))
    ]
    assert not silent, f"use tests/support/waiting.py: {silent}"

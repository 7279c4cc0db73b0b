"""The blocking client of tests, with a connection that ends or answers as a broken server's does."""

import http.client
import ssl
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from supervisor.testing import api
from supervisor.testing.api import Api, ApiError


def connection(*outcomes: Exception | tuple[int, bytes]) -> Mock:
    """A connection of which each request has the next outcome: an error, or status and body."""
    made = Mock(spec=http.client.HTTPSConnection)
    made.getresponse.side_effect = [
        outcome
        if isinstance(outcome, Exception)
        else SimpleNamespace(status=outcome[0], reason="Bad Gateway", read=lambda most, body=outcome[1]: body)
        for outcome in outcomes
    ]
    return made


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    where: Any = SimpleNamespace(settings="", ca_cert="", client_cert=lambda user: ("", ""))
    monkeypatch.setattr(api, "load_settings", lambda path: SimpleNamespace(api_url="https://127.0.0.1:1"))
    monkeypatch.setattr(ssl, "create_default_context", Mock())
    with Api(where) as made:
        yield made


def use(monkeypatch: pytest.MonkeyPatch, *connections: Mock) -> None:
    monkeypatch.setattr(http.client, "HTTPSConnection", Mock(side_effect=connections))


def test_request_on_an_ended_idle_connection_is_sent_again(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = connection((200, b"{}"), http.client.RemoteDisconnected(""))
    use(monkeypatch, ended, connection((200, b'{"a": 1}')))
    client.get("/a")
    assert client.ask("POST", "/a", {}) == {"a": 1}


def test_request_that_was_not_answered_in_time_is_not_sent_again(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, other = connection((200, b"{}"), TimeoutError()), connection((200, b"{}"))
    use(monkeypatch, slow, other)
    client.get("/a")
    with pytest.raises(TimeoutError):
        client.ask("POST", "/a", {})
    assert not other.request.called
    assert client.get("/a") == {}, "the next request has a connection of its own"


@pytest.mark.parametrize(("status", "body"), [(502, b"<html>"), (404, b"[]"), (200, b"ok")])
def test_answer_that_is_no_object_is_an_error_of_the_api(
    client: Any, monkeypatch: pytest.MonkeyPatch, status: int, body: bytes
) -> None:
    use(monkeypatch, connection((status, body)))
    with pytest.raises(ApiError, match="no JSON object") as caught:
        client.get("/a")
    assert caught.value.code == status

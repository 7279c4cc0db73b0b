"""Attributes of libraries that are not their API: each stands behind one module, and is still there."""

import argparse
import ast
import os
import re
from functools import cache
from pathlib import Path

import aiohttp
import pytest
from _pytest.runner import runtestprotocol
from aiohttp import web, web_protocol
from aiohttp.abc import AbstractStreamWriter
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import RawRequestMessage
from textual.drivers.web_driver import WebDriver
from urllib3.connection import HTTPConnection, HTTPSConnection

from supervisor.console.web.process import DRIVER, READY

ROOT = Path(__file__).parents[3]
FOLDERS = ("protocols", "actors", "supervisor", "deploy/pytest-nodeplane/src")
PAGE = ROOT / "docs/decisions/0033-private-internals.md"
INTERNALS = {
    "actors/apiserver/http/connection/responses.py": {"_Compress"},
    "actors/otlp/bounded_session.py": {"_new_conn"},
    "deploy/pytest-nodeplane/src/pytest_nodeplane/every_step.py": {"_fixtureinfo", "_setupstate"},
    "actors/apiserver/http/nodes/client.py": {"_retry_connection"},
    "protocols/serving/connection.py": {"_messages", "_upgraded"},
    "protocols/streams/masked.py": {"_message_tail", "_payload_parser", "_post_start", "_reader"},
    "protocols/streams/turns.py": {"_autoping", "_conn", "_reading_paused"},
    "supervisor/cli/flags.py": {"_SubParsersAction", "_actions", "_choices_actions", "_option_string_actions"},
}
"""Names by the only file that may use them. `_Compress` is a name of the type checker's alone."""
DOCUMENTED = {"_asdict", "_clear_type_cache", "_current_frames", "_exit", "_fields", "_make", "_replace"}
"""Of named tuples, `os` and `sys`: they begin with a line and are documented."""
PRIVATE = r"(_[A-Za-z]\w*)"
SUSPECT = re.compile(r"(?<!\bself)(?<!\bcls)\._[A-Za-z]|class \w+\(\w+\.")
USED = re.compile(rf"\.{PRIVATE}")
DECLARED = re.compile(rf"\b(?:def|class) {PRIVATE}|^ +{PRIVATE}:", re.MULTILINE)
ASSIGNED, TARGET = re.compile(r"^(.*?) [-+|]?= ", re.MULTILINE), re.compile(rf"(?:\bself\.|^|[ (,]){PRIVATE}")
IMPORTED = re.compile(r"^ *from ((?:protocols|actors|supervisor)[\w.]*) import", re.MULTILINE)


@cache
def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@cache
def defined(path: Path) -> frozenset[str]:
    """Return the private names that a file defines: functions, classes, variables, and attributes of `self`."""
    declared = {name for pair in DECLARED.findall(text(path)) for name in pair}
    return frozenset(declared.union(*(TARGET.findall(left) for left in ASSIGNED.findall(text(path)))))


def foreign(path: Path) -> set[str]:
    """Return the private names that a file uses and neither it nor what it imports defines."""
    imported = [ROOT / f"{name.replace('.', '/')}.py" for name in IMPORTED.findall(text(path))]
    found = set(USED.findall(text(path))) - DOCUMENTED - defined(path).union(*map(defined, imported))
    nodes = ast.walk(ast.parse(text(path))) if found else ()  # texts and annotations in quotes are no uses
    return {node.attr for node in nodes if isinstance(node, ast.Attribute)} & found


def test_each_internal_is_used_by_its_module_only() -> None:
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if "_pb2" not in path.name]
    found = {str(path.relative_to(ROOT)): foreign(path) for path in files if SUSPECT.search(text(path))}
    overridden = {"_autoping", "_new_conn", "_post_start"}  # defined by us, since the library reads or calls them
    assert {file: names for file, names in found.items() if names} == {
        file: names - overridden for file, names in INTERNALS.items() if names - overridden
    }


def test_every_internal_has_a_row_of_its_page() -> None:
    page = PAGE.read_text()
    assert [name for file, names in INTERNALS.items() for name in (file, *names) if f"`{name}`" not in page] == []


async def test_aiohttp_session_has_retry_connection() -> None:
    async with aiohttp.ClientSession() as session:
        assert session._retry_connection is True


@pytest.mark.parametrize("name", ["_messages", "_upgraded", "_message_tail", "_payload_parser"])
def test_aiohttp_request_handler_has(name: str) -> None:
    assert name in web_protocol.RequestHandler.__slots__ or hasattr(web_protocol.RequestHandler, name)


def test_aiohttp_websocket_response_has_post_start_and_reader() -> None:
    assert callable(web.WebSocketResponse._post_start)
    assert hasattr(web.WebSocketResponse(), "_reader")


def test_aiohttp_websockets_have_autoping_and_connection() -> None:
    assert web.WebSocketResponse(autoping=False)._autoping is False
    assert {"_autoping", "_conn"} <= set(aiohttp.ClientWebSocketResponse.__init__.__code__.co_names)
    assert "_reading_paused" in BaseProtocol.__slots__


def test_aiohttp_writer_has_output_size() -> None:
    assert AbstractStreamWriter.output_size == 0


def test_aiohttp_message_is_replaced() -> None:
    assert callable(RawRequestMessage._replace)


@pytest.mark.parametrize("kind", [HTTPConnection, HTTPSConnection])
def test_urllib3_connection_has_new_conn(kind: type[HTTPConnection]) -> None:
    assert callable(kind._new_conn)


def test_argparse_parser_has_actions_and_options() -> None:
    parser = argparse.ArgumentParser()
    nested = parser.add_subparsers()
    nested.add_parser("a", help="the help")
    assert isinstance(nested, argparse._SubParsersAction)
    assert nested in parser._actions
    assert parser._option_string_actions["--help"].option_strings == ["-h", "--help"]
    assert [(action.dest, action.help) for action in nested._choices_actions] == [("a", "the help")]


def test_pytest_items_have_fixtures_and_state(request: pytest.FixtureRequest) -> None:
    assert request.node._fixtureinfo.name2fixturedefs is not None
    assert callable(request.session._setupstate.teardown_exact)
    assert callable(runtestprotocol)


def test_textual_web_driver_begins_with_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"{WebDriver.__module__}:{WebDriver.__name__}" == DRIVER
    source = Path(os.fspath(WebDriver.__init__.__code__.co_filename)).read_text()
    assert READY.decode().strip() in source

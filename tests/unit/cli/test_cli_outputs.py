"""Schemas of `-o json`: each command that has the flag has one, the page shows them, and real output fits."""

import importlib
import json
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from protocols.messages.calls import CallRecord
from protocols.messages.devices import AllocatedDevice, ContainerAllocation, Device, PodAllocation
from protocols.podresources import Action, AllocatableEvent, PodEvent
from supervisor.calls.text import record_json
from supervisor.cli.bench import Measured
from supervisor.cli.commands import COMMANDS, parser_of
from supervisor.cli.flags import options, subcommands
from supervisor.cli.inspect.watch import allocatable_json, pod_json
from supervisor.cli.main import main
from supervisor.cli.outputs import OUTPUTS, meanings, schema, structs_of
from supervisor.cli.reference import JSON_PAGE, type_text, with_outputs, write_pages
from supervisor.conform.exchange import Exchange, Shown
from supervisor.conform.report.json import run_json
from supervisor.conform.verdict import FAIL, Result
from tests.bench.row import Row
from tests.support.json_outputs import check_output, name_of

RECORD = CallRecord("example.com/gpu", "Allocate", 1_700_000_000_000_000_000, request={"ids": ["a"]})


def encoded(value: object) -> str:
    return msgspec.json.encode(value).decode()


def test_command_with_json_has_a_schema() -> None:
    modules = {importlib.import_module(command.path) for command in COMMANDS.values()}
    orders = {name for name in OUTPUTS if name.startswith("fleet ")}
    assert set(flagged(parser_of(modules))) == {name.split()[0] for name in OUTPUTS.keys() - orders} | orders


def flagged(parser: ArgumentParser, before: str = "") -> Iterator[str]:
    """Yield the commands that print JSON, with all their words."""
    for name, command in subcommands(parser).items():
        if any("json" in tuple(option.choices or ()) for option in options(command.parser).values()):
            yield f"{before}{name}"
        yield from flagged(command.parser, f"{before}{name} ")


def test_page_is_what_the_types_make() -> None:
    assert JSON_PAGE.read_text() == with_outputs(JSON_PAGE.read_text())


@pytest.mark.parametrize("name", OUTPUTS)
def test_schema_describes_each_field_that_has_a_docstring(name: str) -> None:
    found = schema(name)
    for struct in structs_of(OUTPUTS[name].whole):
        properties = found["$defs"][struct.__name__]["properties"]
        described = {field for field, kind in properties.items() if "description" in kind}
        assert described == set(meanings(struct))


@pytest.mark.parametrize("words", [("version",), ("check",), ("conform", "--list")])
def test_output_of_command_fits_its_schema(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    command = [*words, "-o", "json"]
    main(command)
    printed = capsys.readouterr().out
    assert printed
    check_output(command, printed)


def test_calls_line_fits_its_schema() -> None:
    check_output(["calls", "-o", "json"], record_json(RECORD).decode())


def test_watch_line_fits_its_schema() -> None:
    device = AllocatedDevice("example.com/gpu", "gpu-0", (0,))
    pod = PodAllocation("u", "default", "a", (ContainerAllocation("main", devices=(device,)),))
    for action, shown in ((Action.ADDED, pod), (Action.DELETED, PodAllocation("", "default", "a"))):
        (line,) = pod_json(PodEvent(action, shown))
        check_output(["watch", "pods", "-o", "json"], line)
    (line,) = allocatable_json(AllocatableEvent(Action.ADDED, (Device("example.com/gpu", "gpu-0"),), (1,)))
    check_output(["watch", "allocatable", "-o", "json"], line)


def test_conform_report_fits_its_schema() -> None:
    exchange = Exchange(RECORD, Shown.of(b"\n\x01a"), Shown.of(b""))
    result = Result("registers", "t", "start", "r", "s", "a", FAIL, "it did not", exchanges=(exchange,))
    report = run_json(["./plugin"], [result])
    check_output(["conform", "-o", "json", "--", "./plugin"], encoded(report))
    assert report.verdict == "fail"


def test_bench_row_fits_its_schema() -> None:
    for row in (Row("writes", 1.0, "us", 2.0), Row("writes", None, "", missing="no disk")):
        check_output(["bench", "-o", "json"], json.dumps([row.as_dict()]))
        assert set(row.as_dict()) == set(Measured.__struct_fields__)


def test_field_beyond_the_schema_is_found() -> None:
    with pytest.raises(AssertionError, match="extra"):
        check_output(["calls", "-o", "json"], encoded({**json.loads(record_json(RECORD)), "extra": 1}))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("status -o json", "status"),
        ("devices -o json --patched", "devices --patched"),
        ("trace a -f -o json", "trace --follow"),
        ("watch pods -o json", "watch pods"),
        ("logs", ""),
    ],
)
def test_name_of_words(words: str, name: str) -> None:
    assert name_of(words.split()) == name


def test_schema_lists_outputs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert capsys.readouterr().out.splitlines() == list(OUTPUTS)


def test_schema_of_view_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "devices", "--plugins"]) == 0
    assert json.loads(capsys.readouterr().out) == schema("devices --plugins")


def test_schema_of_no_output_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "statu"]) == 2
    assert "no output is called 'statu'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ({"type": "array", "items": {"$ref": "#/$defs/Row"}}, "list of [Row](#row)"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "map of string"),
        ({}, "any"),
    ],
)
def test_type_in_words(kind: dict[str, object], text: str) -> None:
    assert type_text(kind) == text


def test_page_not_as_made_is_named_by_check_and_written_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = {tmp_path / "a.md": "new", tmp_path / "b.md": "new"}
    (tmp_path / "a.md").write_text("old")
    assert write_pages(made, ["--check"]) == 1
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == [str(path) for path in made]
    assert (tmp_path / "a.md").read_text() == "old"
    assert write_pages(made, []) == 0
    assert write_pages(made, ["--check"]) == 0

"""The bench command: a bench that fails costs its own rows, and the exit code tells of it."""

import json
import subprocess
import sys
from collections.abc import Callable

import pytest

from supervisor.cli.bench import NAMES
from tests.bench import main as command
from tests.bench.health_sources import PluginSource
from tests.bench.row import Row, Unmeasured
from tests.bench.short import SHORT, shortened


def good() -> list[Row]:
    return [Row("good: figure", 1.0, "s")]


def slow() -> list[Row]:
    return [Row("slow: figure", 9.0, "s", target="<= 1 s", ok=False)]


def broken() -> list[Row]:
    raise AssertionError("devices on the node\ndid not come about")


def absent() -> list[Row]:
    raise Unmeasured("etcd is not installed")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    for each in (good, slow, broken, absent):
        monkeypatch.setitem(command.BENCHES, each.__name__, each)
        monkeypatch.setitem(SHORT, each.__name__, {})
    return lambda *words: command.main(list(words))


def test_bench_that_raises_is_missing_and_others_keep_their_rows(
    run: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("broken", "absent", "good", "-o", "json") == 1
    written = capsys.readouterr()
    rows = {row["name"]: row for row in json.loads(written.out)}
    assert [name for name in rows if "time of" not in name] == ["broken", "absent", "good: figure"]
    assert rows["broken"]["missing"] == "AssertionError: devices on the node did not come about"
    assert rows["absent"]["missing"] == "etcd is not installed"
    assert (rows["broken"]["value"], rows["good: figure"]["value"]) == (None, 1.0)
    assert rows["broken: time of this bench"]["unit"] == "s"
    assert "6 rows: 0 miss their target, 2 missing" in written.err
    assert "Traceback" in written.err, "of the bench that is broken"


@pytest.mark.parametrize(
    ("words", "code"),
    [(("good",), 0), (("slow",), 1), (("absent",), 1), (("slow", "--short"), 0), (("broken", "--short"), 1)],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else None,
)
def test_exit_code_tells_of_rows_that_miss_or_are_missing(
    run: Callable[..., int], words: tuple[str, ...], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*words) == code
    assert words[0] in capsys.readouterr().out


def test_json_has_the_rows_until_an_interrupt(
    run: Callable[..., int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> list[Row]:
        raise KeyboardInterrupt

    monkeypatch.setitem(command.BENCHES, "interrupted", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run("good", "interrupted", "-o", "json")
    assert [row["name"] for row in json.loads(capsys.readouterr().out)][:1] == ["good: figure"]


def test_every_bench_has_a_short_form_and_stands_in_the_help() -> None:
    assert tuple(command.BENCHES) == tuple(SHORT) == NAMES


@pytest.mark.parametrize("name", SHORT)
def test_every_short_size_replaces_one_that_the_bench_has(name: str) -> None:
    with shortened(name):
        pass


@pytest.mark.parametrize("text", ["1k", "1000", "1e3"])
async def test_devices_of_a_node_are_compared_as_a_quantity(text: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    class Client:
        async def list(self, resource: object) -> dict[str, object]:
            return {"items": [{"status": {}}, {"status": {"allocatable": {"example.com/gpu": text}}}]}

    assert await PluginSource(tmp_path, 1000).ready(Client())  # type: ignore[arg-type]
    assert not await PluginSource(tmp_path, 999).ready(Client())  # type: ignore[arg-type]


def test_benches_need_no_library_of_the_tests() -> None:
    """An installed distribution has none of them, and its `nodeplane bench` ended with a traceback."""
    absent = ("coverage", "hypothesis", "jinja2", "jsonschema_rs", "kubernetes", "mypy", "pytest", "schemathesis")
    code = f"import sys; sys.modules |= dict.fromkeys({absent}); import tests.bench.main"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)

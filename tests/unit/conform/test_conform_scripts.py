"""Behaviours of a user's folder: what is wrong with one is an error of one line that names its file."""

from pathlib import Path

import pytest

from supervisor.base.errors import UsageError
from supervisor.cli.main import main
from supervisor.conform.scripts import LISTING, behaviours, load

TEXTS = f'"""A title."""\nPHASE = "{LISTING[0]}"\nRULE = SOURCE = ADVICE = "x"\n'
GOOD = TEXTS + "async def run(stage): pass\n"


def saved(folder: Path, text: str) -> Path:
    path = folder / "mine.py"
    path.write_text(text)
    return path


def test_behaviour_of_a_user_is_named_as_its_file(tmp_path: Path) -> None:
    saved(tmp_path, GOOD)
    (mine,) = [each for each in behaviours([tmp_path]) if each.name == "mine"]
    assert (mine.title, mine.phase) == ("A title.", LISTING[0])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def x(:", "cannot be loaded: SyntaxError"),
        ("import nowhere.at_all", "cannot be loaded: ModuleNotFoundError"),
        (GOOD + 'ORDER = "first"', "ORDER is 'first'"),
        (GOOD.replace('"x"', "7"), "RULE is missing, or no text"),
        (TEXTS, "neither run"),
    ],
)
def test_file_that_is_no_behaviour_is_a_usage_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, says: str
) -> None:
    path = saved(tmp_path, text)
    assert main(["conform", "--behaviours", str(tmp_path), "--list"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line
    assert says in line


async def test_behaviour_that_fails_itself_is_a_usage_error(tmp_path: Path) -> None:
    mine = load(saved(tmp_path, TEXTS + "async def run(stage): stage.nothing()\n"))
    with pytest.raises(UsageError, match=r"mine.py is wrong: AttributeError: .*mine.py:4"):
        await mine.run(object())

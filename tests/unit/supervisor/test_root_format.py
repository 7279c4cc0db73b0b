"""The format of ROOT: a newer one is rejected by name before anything is written, one without a number is of 0.1.0."""

from pathlib import Path

import pytest

from protocols.process.layout import layout
from supervisor.base.errors import RootTooNew, RootUnusable
from supervisor.cli.main import main
from supervisor.root import format as root_format
from supervisor.root.directories import make_directories
from supervisor.root.format import NAME, OWN, check_format, mark_format


def test_root_without_the_file_is_of_the_first_release(tmp_path: Path) -> None:
    check_format(tmp_path)
    check_format(tmp_path / "nothing")
    mark_format(tmp_path)
    assert (tmp_path / NAME).read_text() == '{"format":1,"since":"0.1.0"}\n'
    assert (tmp_path / NAME).stat().st_mode & 0o777 == 0o644
    check_format(tmp_path)


def test_newer_root_is_rejected_by_name_and_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / NAME).write_text('{"format":7,"since":"0.9.0","more":[1]}')
    with pytest.raises(RootTooNew):
        make_directories(layout(str(tmp_path)))
    for command in (["up"], ["adopt"]):
        assert main([*command, "--root", str(tmp_path)]) == 1
        error = capsys.readouterr().err
        assert error == (
            f"nodeplane: {tmp_path} has format 7, this program reads up to 1: start nodeplane '0.9.0' or newer on it, "
            "or use another --root\n"
        )
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize("damage", [b"", b"\xff\xfe", b"[]", b'{"format":"1"}', b'{"format":1', b"x" * 100_000])
def test_damaged_format_is_one_line_with_the_remedy(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / NAME).write_bytes(damage)
    with pytest.raises(RootUnusable, match=r"^[^\n]*format.json is damaged: remove it if [^\n]*$"):
        check_format(tmp_path)


def test_start_of_a_newer_program_raises_the_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark_format(tmp_path)
    monkeypatch.setattr(root_format, "OWN", root_format.Format(2, "0.3.0"))
    check_format(tmp_path)
    mark_format(tmp_path)
    monkeypatch.setattr(root_format, "OWN", OWN)
    with pytest.raises(RootTooNew, match=r"start nodeplane '0\.3\.0' or newer"):
        check_format(tmp_path)

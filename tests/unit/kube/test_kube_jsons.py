"""The reader of JSON: its errors are one class, and no value takes long."""

import time
from pathlib import Path

import msgspec
import pytest

from protocols.kube.errors import BodyInvalid
from protocols.kube.jsons import JsonTooDeep, decode_body, read_json, read_json_object
from protocols.process import files
from protocols.process.files import read_bounded

BROKEN = [b"", b"[" * 100_000, b'{"a":' * 100_000, b'["\xff"]', b'"\xed\xa0\x80"', b"1e999", b"nul", b"\xff\xfe[\0"]


@pytest.mark.parametrize("raw", BROKEN, ids=lambda raw: str(raw[:12]))
def test_broken_text_is_one_class_of_error(raw: bytes) -> None:
    for read in (read_json, read_json_object):
        with pytest.raises(msgspec.DecodeError):
            read(raw)
    with pytest.raises(BodyInvalid):
        decode_body(raw)


def test_depth_has_a_class_of_its_own() -> None:
    with pytest.raises(JsonTooDeep):
        read_json(b"[" * 100_000)
    with pytest.raises(BodyInvalid, match="nested too deeply"):
        decode_body(b"[" * 100_000)


def test_slow_numbers_cost_a_microsecond() -> None:
    raw = f"[{','.join(['1e-327'] * 400_000)}]".encode()
    began = time.process_time()
    assert len(read_json(raw)) == 400_000
    assert time.process_time() - began < 1.5


def test_file_of_another_program_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST", 10)
    (tmp_path / "a").write_bytes(b"x" * 10)
    assert read_bounded(tmp_path / "a") == b"x" * 10
    (tmp_path / "a").write_bytes(b"x" * 11)
    with pytest.raises(OSError, match="too large"):
        read_bounded(tmp_path / "a")

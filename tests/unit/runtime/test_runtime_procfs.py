"""Processes below a shim."""

import pytest

from actors.runtime.backends import procfs


def test_chain_of_processes_of_any_length_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(procfs, "_children", lambda pid: [pid + 1] if pid < 5_000 else [])
    assert list(procfs.descendants(1)) == list(range(2, 5_001))

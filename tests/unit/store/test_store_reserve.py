"""What lets a store start where others have taken the last byte."""

from pathlib import Path

from actors.store.file.upkeep import SIZE, DiskReserve


def test_reserve_exists_while_store_serves(tmp_path: Path) -> None:
    reserve = DiskReserve(tmp_path / "reserve")
    reserve.create()
    kept = (tmp_path / "reserve").stat()
    assert (kept.st_size, kept.st_mode & 0o777) == (SIZE, 0o600)
    reserve.release()
    assert not list(tmp_path.iterdir())


def test_reserve_no_space_store_serves(tmp_path: Path) -> None:
    nowhere = DiskReserve(tmp_path / "missing" / "reserve")
    nowhere.release()
    nowhere.create()
    assert not list(tmp_path.iterdir())

"""The table of `make coverage`."""

from tests.support.coverage_table import Measured, rows


def test_folders_follow_their_actor_and_all_comes_last() -> None:
    files = [
        Measured("actors/store/file/wal.py", 10, [3, 4]),
        Measured("actors/store/actor.py", 10, []),
        Measured("protocols/bus/bus.py", 20, [1]),
    ]
    assert rows(files) == [
        ("actors/store", "20", "2", "90.0 %"),
        ("  actors/store/file", "10", "2", "80.0 %"),
        ("protocols/bus", "20", "1", "95.0 %"),
        ("all", "40", "3", "92.5 %"),
    ]

"""Log files on disk: what is kept, packed and removed, and what a kill in between leaves."""

import asyncio
import gzip
import os
from pathlib import Path

import pytest

from actors.podworker.logs import files
from actors.podworker.logs.reader import End, OpenLogFile
from actors.podworker.logs.rotation import SELDOM, LogRotator, RotationOptions, RotationSchedule
from actors.podworker.pods.volumes.paths import pod_directory, removable
from actors.runtime.backends.hollow import write_log
from actors.runtime.shim import streams as shim_logs
from protocols.bus import Unavailable
from tests.support.podworker_fakes import FakeRuntime


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of 100 bytes."""
    path = tmp_path / "main" / "0.log"
    path.parent.mkdir()
    path.write_text("x" * 100)
    return path


def aged(log: Path, *names: str) -> None:
    for name in names:
        log.with_name(f"0.log.{name}").write_text(name)


def names(log: Path) -> list[str]:
    return sorted(path.name for path in log.parent.iterdir())


def looked(runtime: FakeRuntime, log: Path, most_files: int = 5, times: int = 1) -> LogRotator:
    rotator = LogRotator(RotationOptions(50, most_files), runtime, lambda: [("c1", str(log))])

    async def look() -> None:
        for _ in range(times):
            await rotator.check()

    asyncio.run(look())
    return rotator


def test_the_oldest_go_and_the_rest_is_packed(log: Path) -> None:
    aged(log, "20260101-000000", "20260102-000000", "20260103-000000", "20260104-000000")
    log.with_name("0.log.20260101-000000.gz.tmp").write_text("cut off")
    log.with_name("1.log").write_text("another run's")
    runtime = FakeRuntime()
    looked(runtime, log)
    found = names(log)
    assert found[:3] == [f"0.log.2026010{day}-000000.gz" for day in (2, 3, 4)]
    assert len(found) == 5, "with the one just set aside and the other run's; the new log is the runtime's to make"
    assert gzip.decompress(log.with_name(found[0]).read_bytes()) == b"20260102-000000"
    assert runtime.calls == [("reopen_log", "c1")]


def test_pieces_of_before_a_step_back_of_the_clock_go_first(log: Path) -> None:
    aged(log, "20990101-000000.gz", "20990102-000000", "of-somebody")
    piece = files.set_aside(log)
    assert piece.name == "0.log.20990102-000001"
    files.make_room(log, 2)
    assert names(log) == ["0.log.20990102-000001.gz", "0.log.of-somebody.gz"]


def test_two_files_are_the_log_and_one_piece(log: Path) -> None:
    aged(log, "20260101-000000", "20260102-000000.gz")
    looked(FakeRuntime(), log, most_files=2)
    assert len(names(log)) == 1


def test_log_that_cannot_be_looked_at_is_left_alone(tmp_path: Path) -> None:
    runtime = FakeRuntime()
    looked(runtime, tmp_path / ("x" * 300) / "0.log")
    assert runtime.calls == []


def test_small_logs_are_left_alone(log: Path) -> None:
    log.write_text("x" * 50)
    runtime = FakeRuntime()
    looked(runtime, log)
    assert names(log) == ["0.log"]
    assert runtime.calls == []


def test_rotation_is_undone_when_the_runtime_is_unreachable(log: Path) -> None:
    runtime = FakeRuntime()
    runtime.fail["reopen_log"] = [Unavailable("away")]
    looked(runtime, log)
    assert names(log) == ["0.log"]


def test_log_that_the_runtime_opened_after_all_is_not_replaced(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines were lost where it was made between a look and a rename."""
    piece = files.set_aside(log)
    log.write_text("new")
    monkeypatch.setattr(os.path, "exists", lambda path: False)
    files.put_back(log, piece)
    assert (log.read_text(), len(piece.read_text())) == ("new", 100)


def test_a_pending_reopen_is_sent_after_a_restart(log: Path) -> None:
    log.rename(log.with_name("0.log.20260101-000000"))
    runtime = FakeRuntime()
    runtime.fail["reopen_log"] = [Unavailable("away")]
    looked(runtime, log, times=3 * SELDOM)
    assert runtime.calls == [("reopen_log", "c1")] * 2, "once more after a failure"


def test_a_log_that_was_never_there_is_nobodys_business(log: Path) -> None:
    log.unlink()
    runtime = FakeRuntime()
    looked(runtime, log)
    assert runtime.calls == []


async def test_a_log_that_somebody_removed_is_opened_again(log: Path) -> None:
    """Else the container writes to the removed file, which grows on the disk where nobody sees it."""
    runtime = FakeRuntime()
    rotator = LogRotator(RotationOptions(1000, 5), runtime, lambda: [("c1", str(log))])
    await rotator.check()
    await asyncio.to_thread(log.unlink)
    runtime.fail["reopen_log"] = [Unavailable("away")]
    for _ in range(3 * SELDOM):
        await rotator.check()
    assert runtime.calls == [("reopen_log", "c1")] * 2, "once more after a failure, and then it is there"


def test_remove_takes_the_pieces_along(log: Path) -> None:
    aged(log, "20260101-000000", "20260102-000000.gz")
    log.with_name("10.log").write_text("another run's")
    files.remove(log)
    assert names(log) == ["10.log"]


def test_a_file_that_cannot_be_packed_stops_nothing_else(log: Path) -> None:
    if os.geteuid() == 0:
        log.with_name("0.log.20260101-000000").mkdir()
    else:
        aged(log, "20260101-000000")
        log.with_name("0.log.20260101-000000").chmod(0)
    runtime = FakeRuntime()
    looked(runtime, log)
    assert log.read_text() == "x" * 100
    assert runtime.calls == []


def test_silent_logs_are_checked_seldom_and_growing_ones_each_time() -> None:
    growth, looked_at = RotationSchedule(), {"silent": 0, "growing": 0, "large": 0}
    for turn in range(60):
        for id in growth.due(looked_at):
            looked_at[id] += 1
            growth.found(id, turn if id == "growing" else 7)
            if id == "large":
                growth.again(id)
    assert looked_at["growing"] == looked_at["large"] == 60
    assert 60 // SELDOM <= looked_at["silent"] <= 60 // SELDOM + SELDOM


def test_a_silent_log_that_grows_again_is_checked_each_time() -> None:
    growth = RotationSchedule()
    for _ in range(30):
        for id in growth.due({"a": 0}):
            growth.found(id, 7)
    until_seen = next(turn for turn in range(1, 99) if growth.due({"a": 0}))
    growth.found("a", 8)
    assert until_seen <= SELDOM
    assert growth.due({"a": 0}) == ["a"]


def test_a_new_log_is_checked_at_once_and_a_removed_one_is_dropped() -> None:
    growth = RotationSchedule()
    for _ in range(20):
        for id in growth.due({"a": 0}):
            growth.found(id, 7)
    assert "b" in growth.due({"a": 0, "b": 0})
    growth.found("b", 1)
    assert {"b", "c"} <= set(growth.due({"a": 0, "b": 0, "c": 0}))
    assert growth.due({"b": 0}) == ["b"]


async def test_containers_are_gone_through_only_after_something_changed(log: Path) -> None:
    asked = 0

    def running() -> list[tuple[str, str]]:
        nonlocal asked
        asked += 1
        return [("c1", str(log))]

    runtime = FakeRuntime()
    rotator = LogRotator(RotationOptions(1000, 5), runtime, running)
    for _ in range(5 * SELDOM):
        await rotator.check()
    assert asked == 1
    await asyncio.to_thread(log.write_text, "x" * 2000)
    for _ in range(SELDOM):
        await rotator.check()
    assert (asked, runtime.calls) == (1, [("reopen_log", "c1")]), "growth of a silent log is found all the same"
    rotator.changed()
    await rotator.check()
    assert asked == 2


def test_passes_without_a_due_log_are_skipped() -> None:
    growth, looked_at = RotationSchedule(), 0
    for turn in range(60):
        if turn and growth.skip_pass():
            continue
        for id in growth.due({"silent": 0}):
            looked_at += 1
            growth.found(id, 7)
    assert 60 // SELDOM <= looked_at <= 60 // SELDOM + SELDOM


def test_links_among_the_logs_lead_nowhere(log: Path, tmp_path: Path) -> None:
    """A container that may write to the logs' directory (hostPath) plants links to a file of the host, and a pipe."""
    victim = tmp_path / "victim"
    victim.write_text("the host's")
    log.unlink()
    for name in ("0.log", "0.log.20260101-000000", "0.log.20260102-000000.gz.tmp"):
        log.with_name(name).symlink_to(victim)
    log.with_name("0.log.20260102-000000").write_text("a piece")
    os.mkfifo(log.with_name("0.log.20260103-000000"))
    assert files.size_of(str(log)) < 100
    files.make_room(log, 5)
    assert names(log) == ["0.log", "0.log.20260102-000000.gz"]
    assert gzip.decompress(log.with_name("0.log.20260102-000000.gz").read_bytes()) == b"a piece"
    reader = OpenLogFile(str(log))
    reader.open(-1)
    assert reader.read() == b""
    assert reader.at_end() is End.WAIT
    with pytest.raises(OSError, match="symbolic links"):
        shim_logs.ContainerLogFile(str(log))
    write_log(str(log), ("mine",), 0)
    assert victim.read_text() == "the host's"


@pytest.mark.parametrize("uid", ["", ".", "..", "../..", "/etc", "a/b", "../pods/other"])
def test_a_pods_directory_is_removed_only_if_it_is_one(tmp_path: Path, uid: str) -> None:
    """The uid of an orphaned pod is what the runtime reports."""
    assert not removable(pod_directory(tmp_path, uid), tmp_path / "pods")
    assert removable(pod_directory(tmp_path, "1-2"), tmp_path / "pods")

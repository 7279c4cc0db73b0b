"""plugins_registry/: what counts as a plugin's socket, and when which step is due."""

import socket
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from actors.devices.watcher.sockets import MAX_SOCKETS, RETRY_MAX_S, Operation, RegistryState, SocketIdentity, scan

A, B = Path("/r/a.sock"), Path("/r/b.sock")
ONE, TWO = SocketIdentity(1, 1, 1), SocketIdentity(1, 2, 2)


def bind(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def test_a_scan_finds_sockets_at_any_depth_and_nothing_else() -> None:
    with TemporaryDirectory(dir="/tmp") as folder:
        root = Path(folder)
        (root / "deep" / "er").mkdir(parents=True)
        (root / "looks-like.sock").mkdir()
        (root / ".hidden").mkdir()
        (root / "file.sock").write_text("no socket")
        (root / "dangling.sock").symlink_to(root / "nowhere")
        for path in (root / "a.sock", root / ".b.sock", root / "deep" / "er" / "c.sock", root / ".hidden" / "d.sock"):
            bind(path)
        found = scan(root)
        assert sorted(found.sockets) == [root / "a.sock", root / "deep" / "er" / "c.sock"]
        assert set(found.directories) == {root, root / "deep", root / "deep" / "er", root / "looks-like.sock"}
        assert not found.full


def test_a_socket_bound_anew_has_another_stamp_and_a_chmod_has_not() -> None:
    with TemporaryDirectory(dir="/tmp") as folder:
        path = Path(folder) / "a.sock"
        bind(path)
        first = scan(Path(folder)).sockets[path]
        path.chmod(0o777)
        assert scan(Path(folder)).sockets[path] == first
        path.unlink()
        bind(path)
        assert scan(Path(folder)).sockets[path] != first


def test_a_directory_without_end_is_not_walked_to_its_end() -> None:
    with TemporaryDirectory(dir="/tmp") as folder:
        root = Path(folder)
        (root / "/".join(["d"] * 20)).mkdir(parents=True)
        assert scan(root).full
        assert len(scan(root).directories) < 12
    assert MAX_SOCKETS == 1024


def test_what_is_gone_is_taken_off_and_what_is_new_taken_in() -> None:
    progress = RegistryState()
    progress.set_desired({A: ONE}, 0.0)
    (step,) = progress.next_steps(0.0)
    assert (step.path, step.operation) == (A, Operation.REGISTER)
    assert progress.next_steps(0.0) == []
    progress.finished(step, True, 1.0)
    assert progress.next_due() is None
    progress.set_desired({B: ONE}, 2.0)
    steps = progress.next_steps(2.0)
    assert {(step.path, step.operation) for step in steps} == {(A, Operation.DEREGISTER), (B, Operation.REGISTER)}
    for step in steps:
        progress.finished(step, True, 2.0)
    assert progress.counts() == {B: (True, True)}


def test_a_path_bound_anew_is_taken_off_first() -> None:
    progress = RegistryState()
    progress.set_desired({A: ONE}, 0.0)
    progress.finished(progress.next_steps(0.0)[0], True, 0.0)
    progress.set_desired({A: TWO}, 5.0)
    (off,) = progress.next_steps(5.0)
    assert (off.operation, off.identity) == (Operation.DEREGISTER, ONE)
    progress.finished(off, True, 5.0)
    (on,) = progress.next_steps(6.0)
    assert (on.operation, on.identity) == (Operation.REGISTER, TWO)


def test_a_failing_plugin_is_tried_ever_more_rarely() -> None:
    progress, now, pauses = RegistryState(), 0.0, []
    progress.set_desired({A: ONE}, now)
    for _ in range(12):
        progress.finished(progress.next_steps(now)[0], False, now)
        due = progress.next_due()
        assert due is not None
        pauses.append(due - now)
        assert progress.next_steps(due - 0.01) == []
        now = due
    assert pauses[:4] == [0.5, 1.0, 2.0, 4.0]
    assert pauses[-1] == RETRY_MAX_S


@given(st.lists(st.tuples(st.sampled_from(["gone", "one", "two", "begin", "good", "bad"]), st.floats(0.0, 3.0))))
def test_the_end_of_every_history_is_what_the_directory_shows(history: list[tuple[str, float]]) -> None:
    progress, now, under_way = RegistryState(), 0.0, []
    sockets: dict[Path, SocketIdentity] = {}
    for word, pause in history:
        now += pause
        if word in ("gone", "one", "two"):
            sockets = {"gone": {}, "one": {A: ONE}, "two": {A: TWO}}[word]
            progress.set_desired(sockets, now)
        elif word == "begin":
            under_way += progress.next_steps(now)
            assert len(under_way) <= 1  # one step per path
        elif under_way:
            progress.finished(under_way.pop(), word == "good", now)
    for step in under_way:
        progress.finished(step, True, now)
    for _ in range(6):
        now += RETRY_MAX_S
        for step in progress.next_steps(now):
            progress.finished(step, True, now)
    assert progress.counts() == dict.fromkeys(sockets, (True, True))

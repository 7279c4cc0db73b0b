"""`nodeplane status`: a line per actor, what is wrong first, streams only on request."""

import json
from typing import Any

import pytest

from protocols.messages.supervisor import ActorStatus, FollowedStream, Heartbeat, OwnedStream, PlaneStatus
from supervisor.base.errors import NotRunning, UsageError
from supervisor.cli.inspect import status
from supervisor.cli.inspect.tap import check_stream
from supervisor.cli.main import main
from tests.unit.supervisor.test_terminal import terminal_for

STALE = (
    FollowedStream("devices", "allocations", 1, 5, 9, True),
    FollowedStream("devices", "health", 1, 2, 0, False),
)


def beat(name: str, **more: Any) -> Heartbeat:
    return Heartbeat(name, 7, 1, "ready", **{"note": "serving", **more})


def actor(name: str, state: str = "live", reason: str = "", **more: Any) -> ActorStatus:
    return ActorStatus(name, "node", 7, state, 61.0, 2, reason, beat(name, **more))


def plane(*actors: ActorStatus) -> PlaneStatus:
    return PlaneStatus("supervisor", 1, 1.0, actors, {"api": "https://x", "metrics": "http://y"})


def shown(found: PlaneStatus, **how: bool) -> list[str]:
    return "\n".join(map(str, status.sections(found, **how))).splitlines()


def test_status_is_a_line_per_actor_and_endpoint() -> None:
    found = plane(actor("store", owns=(OwnedStream("x", 4, 3),)), actor("pleg"))
    assert [line.split() for line in shown(found)] == [
        ["ACTOR", "STATE", "PID", "UPTIME", "RESTARTS", "NOTE"],
        ["store", "live", "7", "1m1s", "2", "serving"],
        ["pleg", "live", "7", "1m1s", "2", "serving"],
        ["api", "https://x"],
        ["metrics", "http://y"],
    ]


def test_tap_of_unknown_owner_or_stream_names_those_that_are_there() -> None:
    found = plane(actor("devices", owns=(OwnedStream("health", 4, 3),)), actor("otlp"))
    with pytest.raises(UsageError, match="no actor is called 'nobody'; streams have: devices"):
        check_stream(found, "nobody", "health")
    with pytest.raises(UsageError, match="devices has no stream 'nope'; it has: health"):
        check_stream(found, "devices", "nope")
    check_stream(found, "devices", "health")
    check_stream(found, "otlp", "unknown")  # what it owns is not known yet


def test_status_wrong_actors_come_first() -> None:
    found = plane(
        actor("store", reason="killed by SIGKILL"),
        actor("frontdoor", follows=STALE),
        actor("pleg", "backoff", "killed by SIGKILL", note=""),
        actor("podworker", "starting", note="waits for cri"),
    )
    lines = [line.split(None, 5) for line in shown(found)[1:5]]
    assert [(line[0], line[5]) for line in lines] == [
        ("frontdoor", "not synced: devices/health"),
        ("pleg", "killed by SIGKILL"),
        ("podworker", "waits for cri"),
        ("store", "serving"),
    ]


def test_status_streams_are_shown_on_request() -> None:
    found = plane(actor("frontdoor", reason="killed by SIGKILL", follows=STALE, owns=(OwnedStream("x", 4, 3),)))
    text = "\n".join(shown(found, streams=True))
    assert "follows devices/health" in text
    assert "owns x" in text
    assert "NO" in text
    wide = "\n".join(shown(found, wide=True))
    assert "1/2" in wide
    assert "killed by SIGKILL" in wide


def test_status_terminal_is_narrow_keeps_a_line_per_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = terminal_for(monkeypatch)
    monkeypatch.setattr(status, "ask", lambda layout, question: plane(actor("store", note="x" * 200), actor("pleg")))
    assert main(["status"]) == 0
    lines = terminal.getvalue().splitlines()
    assert len(lines) == 6
    assert lines[1].rstrip().endswith("…")
    assert "\x1b[32mlive" in lines[1]


def test_status_json_is_whole(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(status, "ask", lambda layout, question: plane(actor("frontdoor", follows=STALE)))
    assert main(["status", "-o", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["actors"][0]["beat"]["follows"]) == 2


def test_status_watch_outlives_the_plane(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ends = NotRunning("no plane runs"), KeyboardInterrupt()
    answers: list[PlaneStatus | BaseException] = [plane(actor("store")), *ends]

    def ask(*_: object) -> PlaneStatus:
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(status, "ask", ask)
    monkeypatch.setattr(status, "REFRESH_S", 0)
    assert main(["status", "--watch"]) == 0
    written = capsys.readouterr()
    assert "store" in written.out
    assert written.err == "nodeplane: no plane runs\n"

"""The audit log: what a line holds, and that a file neither grows for ever nor loses lines to its own rotation."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.apiserver.authentication.user import User
from actors.apiserver.catalog.table import TABLE
from actors.apiserver.request.audit import HEAD, LARGEST_BATCH, AuditLog, Entry, append, is_audited, line, subject
from actors.apiserver.request.target import Target


def target_of(verb: str, number: int = 0) -> Target:
    return Target(TABLE.of("secrets"), verb, "ns", f"s{number}")


def entry(verb: str = "create", number: int = 0, **changes: Any) -> Entry:
    path, target = changes.pop("path", "/api/v1/x"), changes.pop("target", target_of(verb, number))
    values: dict[str, Any] = {
        "verb": verb, "subject": subject(path, target), "user": User("ann"), "acts_as": None, "code": 201,
        "received": 1.0, "seconds": 0.25, "agent": "kubectl", "address": "127.0.0.1", **changes,
    }  # fmt: skip
    return Entry(**values)


def lines(path: Path) -> list[dict[str, Any]]:
    files = [file for file in (path.with_name(f"{path.name}.1"), path) if file.exists()]
    return [json.loads(text) for file in files for text in file.read_text().splitlines()]


def test_writes_are_noted_and_reads_are_not(tmp_path: Path) -> None:
    async def story() -> None:
        log = AuditLog(tmp_path / "logs" / "audit.log")
        for verb in ("get", "list", "watch", "create", "delete"):
            if is_audited(verb, target_of(verb)):
                log.note(entry(verb))
        await log.close()

    asyncio.run(story())
    found = lines(tmp_path / "logs" / "audit.log")
    assert [line["verb"] for line in found] == ["create", "delete"]
    assert found[0]["user"] == {"username": "ann"}
    assert found[0]["objectRef"] == {"resource": "secrets", "namespace": "ns", "name": "s0", "apiVersion": "v1"}
    assert found[0]["responseStatus"] == {"code": 201}
    assert found[0]["stageTimestamp"] == "1970-01-01T00:00:01.250000Z"
    assert (tmp_path / "logs" / "audit.log").stat().st_mode & 0o777 == 0o600


def test_whom_one_acts_as_is_told(tmp_path: Path) -> None:
    append(tmp_path / "a", [line(entry(acts_as=User("bob"))), line(entry(acts_as=User("ann"), target=None))])
    first, second = lines(tmp_path / "a")
    assert first["impersonatedUser"] == {"username": "bob"}
    assert "impersonatedUser" not in second


@given(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.floats(0, 1e4),
    st.floats(0, 4e9),
)
def test_a_line_is_json_as_one_writes_it(path: str, agent: str, seconds: float, received: float) -> None:
    told = line(entry(path=path, agent=agent, seconds=seconds, received=received)).decode()
    found = json.loads(told)
    assert told == msgspec.json.encode(found).decode() + "\n"
    assert told.startswith(HEAD)
    assert (found["requestURI"], found["userAgent"]) == (path, agent)
    assert found["latencySeconds"] == int(1e6 * seconds) / 1e6
    assert list(found)[4:] == [
        "auditID", "requestURI", "verb", "user", "sourceIPs", "userAgent", "objectRef", "responseStatus",
        "requestReceivedTimestamp", "stageTimestamp", "latencySeconds",
    ]  # fmt: skip


def test_rotation_by_several_writers_loses_nothing(tmp_path: Path) -> None:
    path, rounds, size = tmp_path / "a", 40, 600

    def write(first: int) -> None:
        for number in range(rounds):
            append(path, [line(entry(number=first + number))], limit=size * rounds * 2)

    writers = [threading.Thread(target=write, args=(1000 * each,)) for each in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    names = [line["objectRef"]["name"] for line in lines(path)]
    assert len(names) == len(set(names)) == 3 * rounds
    assert path.with_name("a.1").exists()


def test_a_full_disk_costs_lines_not_requests(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        log = AuditLog(tmp_path)  # a directory: nothing can be written there
        for number in range(LARGEST_BATCH + 3):
            log.note(entry(number=number))
        assert log.dropped == 3
        await log.close()
        log.note(entry())
        await log.close()
        assert log.dropped == LARGEST_BATCH + 4

    asyncio.run(story())
    assert len(caplog.messages) == 1

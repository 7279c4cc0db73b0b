"""The audit log: what a line holds, and that a file neither grows for ever nor loses lines to its own rotation."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from actors.apiserver.api.errors import BadRequest, Forbidden
from actors.apiserver.api.request.target import Target
from actors.apiserver.api.request.user import ANONYMOUS, User
from actors.apiserver.http.telemetry.audit import (
    ANONYMOUS_BURST,
    CUT,
    HEAD,
    LARGEST_BATCH,
    LINES,
    NAME_LIMIT,
    URI_LIMIT,
    AuditLog,
    Entry,
    Sampler,
    is_audited,
    line,
    shortened,
    subject,
)
from actors.apiserver.http.telemetry.audit_files import Keep, append
from actors.apiserver.table import TABLE


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
    numbered = [path.with_name(f"{path.name}.{number}") for number in range(20, 0, -1)]
    files = [file for file in (*numbered, path) if file.exists()]
    return [json.loads(text) for file in files for text in file.read_text().splitlines()]


async def test_writes_are_noted_and_reads_are_not(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "logs" / "audit.log")
    for verb in ("get", "list", "watch", "create", "delete"):
        if is_audited(verb, target_of(verb)):
            log.note(entry(verb))
    await log.close()
    found = lines(tmp_path / "logs" / "audit.log")
    assert [line["verb"] for line in found] == ["create", "delete"]
    assert found[0]["user"] == {"username": "ann"}
    assert found[0]["objectRef"] == {"resource": "secrets", "namespace": "ns", "name": "s0", "apiVersion": "v1"}
    assert found[0]["responseStatus"] == {"code": 201}
    assert found[0]["stageTimestamp"] == "1970-01-01T00:00:01.250000Z"
    assert (tmp_path / "logs" / "audit.log").stat().st_mode & 0o777 == 0o600


def test_credential_of_the_author_is_recorded_and_no_extra_that_a_client_words() -> None:
    credential = User("ann", extra=(("authentication.kubernetes.io/credential-id", ("JTI=1",)),))
    found = json.loads(line(entry(user=credential, acts_as=User("bob", extra=(("scopes", ("x" * 9999,)),)))))
    assert found["user"]["extra"] == {"authentication.kubernetes.io/credential-id": ["JTI=1"]}
    assert found["impersonatedUser"] == {"username": "bob"}


def test_names_of_an_impersonated_user_are_cut() -> None:
    many = User("n" * 60_000, tuple(f"{number}{'g' * 300}" for number in range(1000)), "u" * 60_000)
    found = line(entry(acts_as=many))
    assert len(found) < 20_000
    assert json.loads(found)["impersonatedUser"]["username"] == "n" * NAME_LIMIT + CUT


def test_the_impersonated_user_is_recorded(tmp_path: Path) -> None:
    batch = [line(entry(acts_as=User("bob"))), line(entry(acts_as=User("ann"), target=None))]
    append(tmp_path / "a", batch, Keep())
    first, second = lines(tmp_path / "a")
    assert first["impersonatedUser"] == {"username": "bob"}
    assert "impersonatedUser" not in second


def test_line_of_a_failed_write_says_why_without_the_body() -> None:
    denied = entry(
        code=403, fault=Forbidden("m" * 2000).status, acts_as=User("bob"), constraint="impersonate:user-info"
    )
    found = json.loads(line(denied))
    message = "m" * URI_LIMIT + CUT
    assert found["responseStatus"] == {"status": "Failure", "message": message, "reason": "Forbidden", "code": 403}
    assert found["authenticationMetadata"] == {"impersonationConstraint": "impersonate:user-info"}
    invalid = json.loads(line(entry(code=400, fault=BadRequest("hush").status)))
    assert invalid["responseStatus"] == {"status": "Failure", "reason": "BadRequest", "code": 400}
    begun = json.loads(line(entry(code=0)))
    assert (begun["stage"], "responseStatus" in begun) == ("RequestReceived", False)


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
            append(path, [line(entry(number=first + number))], Keep(file_bytes=size * rounds // 4))

    writers = [threading.Thread(target=write, args=(1000 * each,)) for each in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    names = [line["objectRef"]["name"] for line in lines(path)]
    assert len(names) == len(set(names)) == 3 * rounds
    assert path.with_name("a.1").exists()


async def test_a_full_disk_costs_lines_not_requests(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    registry = CollectorRegistry()
    log = AuditLog(tmp_path, registry)  # a directory: nothing can be written there
    for number in range(LARGEST_BATCH + 3):
        log.note(entry(number=number))
    assert lost(registry) == 3
    await log.close()
    log.note(entry())
    await log.close()
    assert lost(registry) == LARGEST_BATCH + 4
    assert len(caplog.messages) == 1


def lost(registry: CollectorRegistry) -> float | None:
    return registry.get_sample_value(LINES.name, {"caller": "authenticated", "outcome": "lost"})


def fill(path: Path, numbers: range, keep: Keep) -> None:
    for number in numbers:
        append(path, [line(entry(number=number))], keep)


def test_files_put_aside_are_bounded_in_number_and_bytes_and_the_oldest_goes(tmp_path: Path) -> None:
    path, keep = tmp_path / "a", Keep(file_bytes=2000, files=4)
    fill(path, range(100), keep)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "a.1", "a.2", "a.3"]
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= keep.file_bytes * keep.files
    names = [found["objectRef"]["name"] for found in lines(path)]
    assert names == [f"s{number}" for number in range(100 - len(names), 100)]


def test_file_older_than_is_kept_goes_with_the_next_that_is_put_aside(tmp_path: Path) -> None:
    path, keep = tmp_path / "a", Keep(file_bytes=2000, files=8, seconds=100.0)
    fill(path, range(20), keep)
    old = path.with_name("a.2")
    kept = old.read_text()
    os.utime(old, (1, 1))
    fill(path, range(20, 25), keep)
    assert path.with_name("a.1").exists()
    assert all(kept != file.read_text() for file in tmp_path.iterdir())


def test_rotation_killed_between_two_renames_loses_nothing(tmp_path: Path) -> None:
    path, keep = tmp_path / "a", Keep(file_bytes=2000, files=8)
    fill(path, range(12), keep)
    path.with_name("a.1").rename(path.with_name("a.9"))  # a gap
    path.with_name("a.9").rename(path.with_name("a.5"))
    before = {found["objectRef"]["name"] for found in lines(path)}
    fill(path, range(12, 16), keep)
    assert before < {found["objectRef"]["name"] for found in lines(path)}


async def test_callers_who_proved_nothing_fill_their_own_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"

    log = AuditLog(path)
    log.note(entry())
    for _ in range(1000):
        log.note(entry(user=ANONYMOUS, path="/" + "x" * 480_000, target=None, code=401))
    log.note(entry(number=1))
    await log.close()
    assert [found["objectRef"]["name"] for found in lines(path)] == ["s0", "s1"]
    *sampled, last = lines(tmp_path / "audit-anonymous.log")
    assert ANONYMOUS_BURST <= len(sampled) < ANONYMOUS_BURST + 20
    assert int(last["annotations"]["nodeplane.dev/left-out"]) == 1000 - len(sampled)
    assert last["user"]["username"] == "system:anonymous"
    assert (tmp_path / "audit-anonymous.log").stat().st_size < 100_000


def test_line_with_all_that_a_client_words_too_long_is_short() -> None:
    long = "\x07" * 100_000
    target = Target(TABLE.of("secrets"), "create", long, long)
    told = line(entry(path=long, target=target, agent=shortened(long, NAME_LIMIT)))
    assert len(told) < 6 * (URI_LIMIT + 3 * NAME_LIMIT) + 1000
    found = json.loads(told)
    assert found["requestURI"] == long[:URI_LIMIT] + CUT
    assert found["objectRef"]["name"] == found["objectRef"]["namespace"] == long[:NAME_LIMIT] + CUT


@given(st.lists(st.floats(0, 5), max_size=200))
def test_sampler_lets_a_burst_and_its_rate_through_and_counts_the_rest(pauses: list[float]) -> None:
    sampler, now, let = Sampler(rate=1.0, burst=5.0), 100.0, 0
    for pause in pauses:
        now += pause
        let += sampler.allow(now)
    assert let <= 5 + sum(pauses) + 1e-6
    assert let + sampler.report() == len(pauses)
    assert sampler.report() == 0

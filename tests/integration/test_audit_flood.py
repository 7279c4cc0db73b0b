"""Strangers who flood the API server: what known users did stays in the audit log, which stays small."""

import json
import re
import signal
from pathlib import Path
from typing import Any

from actors.apiserver.http.telemetry.audit import ANONYMOUS_BURST, NAME_LIMIT, URI_LIMIT
from tests.support.apiserver_plane import Plane
from tests.support.store_lab import until

FLOOD = 300
PATH = "/" + "x" * 50_000
"""As many of these as FLOOD put aside a file of 4 MiB thrice."""
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


def lines(path: Path) -> list[dict[str, Any]]:
    """Whole lines of a file that may be written to now."""
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def names(log: Path) -> set[str]:
    return {line["objectRef"].get("name", "") for line in lines(log)}


def left_out(page: str) -> float:
    found = re.search(r'nodeplane_apiserver_audit_lines_total\{caller="anonymous",outcome="left_out"\} (\S+)', page)
    return float(found.group(1)) if found else -1.0


async def test_flood_of_anonymous_writes_leaves_the_log_of_known_users(plane: Plane) -> None:
    logs = plane.settings.layout.logs
    known, unknown = logs / "audit.log", logs / "audit-anonymous.log"

    async def story() -> str:
        async with plane.client() as admin, plane.client("") as stranger:
            made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}}
            async with admin.post(CONFIGMAPS, json=made) as answer:
                assert answer.status == 201
            async with admin.delete(f"{CONFIGMAPS}/kept") as answer:
                assert answer.status == 200
            for number in range(FLOOD):
                method = ("DELETE", "PATCH", "POST", "PUT")[number % 4]
                async with stranger.request(method, PATH, headers={"User-Agent": "a" * 8000}) as answer:
                    assert answer.status == 401
            async with stranger.post("/api/v1/x", headers={"Authorization": "Bearer nonsense"}) as answer:
                assert answer.status == 401
        return await plane.metrics("apiserver-0")

    page = await story()
    until("the write is noted", lambda: "kept" in names(known))
    assert {line["verb"] for line in lines(known) if line["objectRef"].get("name") == "kept"} >= {"delete"}
    assert not [file.name for file in logs.iterdir() if re.fullmatch(r"audit.*\.\d+", file.name)], (
        "nothing was put aside"
    )
    assert all(line["user"]["username"] != "system:anonymous" for line in lines(known))
    written = until("the sample", lambda: lines(unknown))
    assert len(written) <= ANONYMOUS_BURST + 60
    assert unknown.stat().st_size <= len(written) * 6 * (URI_LIMIT + 3 * NAME_LIMIT)
    assert left_out(page) >= FLOOD - ANONYMOUS_BURST - 60


async def test_impersonation_that_is_refused_names_who_tried(plane: Plane) -> None:
    acting = {"Impersonate-User": "admin"}
    async with plane.client("scheduler") as session, session.post(CONFIGMAPS, json={}, headers=acting) as answer:
        assert answer.status == 403
    log = plane.settings.layout.logs / "audit.log"
    tried = until("the line", lambda: [line for line in lines(log) if line["responseStatus"]["code"] == 403])
    assert tried[-1]["user"]["username"] == "system:kube-scheduler"


async def test_process_that_leaves_says_how_many_lines_it_left_out(plane: Plane) -> None:
    async with plane.client("") as stranger:
        for _ in range(int(ANONYMOUS_BURST) + 80):
            async with stranger.post("/api") as answer:
                assert answer.status == 401
    plane.kill("apiserver-0", signal.SIGTERM)
    last = lines(plane.settings.layout.logs / "audit-anonymous.log")[-1]
    assert int(last["annotations"]["nodeplane.dev/left-out"]) > 0

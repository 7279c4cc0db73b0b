"""Typed views: made from the facts, free at run time, and a misspelt field is an error of mypy."""

from pathlib import Path
from typing import Any

import pytest
from mypy import api

from protocols.kinds import generate, views
from protocols.kinds.typed_views import views_text

ROOT = Path(__file__).parents[3]
SAMPLE = """
from protocols.kinds import views

def sample(pod: views.Pod, claim: views.ResourceClaim) -> None:
    pod["spec"]["containers"][0]["resources"]["claims"][0]["request"]
    (pod.get("status") or {}).get("phase")
    for device in claim["status"]["allocation"]["devices"]["results"]:
        device.get("shareID")
    pod["spec"]["contianers"]
    (pod.get("status") or {}).get("phsae")
    pod["status"] = {"hostIp": ""}
    claim.get("metadata", {}).get("lables")
"""
MISSPELT = {9: "contianers", 10: "phsae", 11: "hostIp", 12: "lables"}


def test_misspelt_field_is_error_of_mypy(tmp_path: Path) -> None:
    config, sample = tmp_path / "mypy.ini", tmp_path / "sample.py"
    config.write_text(f"[mypy]\nstrict = true\nmypy_path = {ROOT}\nplugins = {ROOT}/tests/support/known_fields.py\n")
    sample.write_text(SAMPLE)
    out, _, _ = api.run(["--config-file", str(config), "--cache-dir", str(tmp_path), "--no-pretty", str(sample)])
    errors = {int(line.split(":")[1]): line for line in out.splitlines() if " error: " in line}
    assert errors.keys() == MISSPELT.keys(), out
    assert all(field in errors[line] for line, field in MISSPELT.items()), out


def test_view_is_plain_object_at_run_time() -> None:
    assert views.Pod == dict[str, Any]
    with pytest.raises(AttributeError, match="__path__"):
        _ = views.__path__


def test_field_of_fact_stands_in_view() -> None:
    lines = views_text().splitlines()
    assert 'CoreResourceClaim = TypedDict("CoreResourceClaim", {"name": str, "request": str}, total=False)' in lines
    assert any('"lastTransitionTime": str | None' in line for line in lines)


def test_stale_views_fail_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generate, "VIEWS", tmp_path / "views.pyi")
    (tmp_path / "views.pyi").write_text(views_text().replace("nodeName", "nodename"))
    assert generate.main(["--check"]) == 1
    assert generate.main(["--write"]) == 0
    assert generate.main(["--check"]) == 0

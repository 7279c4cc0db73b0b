"""docs/explanation/device-scenarios.md names tests: all of them exist."""

import re
from pathlib import Path

REPO = Path(__file__).parents[2]


def test_every_test_on_the_page_of_device_scenarios_exists() -> None:
    page = (REPO / "docs" / "explanation" / "device-scenarios.md").read_text()
    named = set(re.findall(r"`(test_\w+)`", page))
    there = {
        name
        for path in (REPO / "tests").rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", path.read_text())
    }
    assert len(named) > 50
    assert not named - there

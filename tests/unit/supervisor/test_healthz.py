"""The health page of a supervisor, as probes and people read it."""

import pytest

from supervisor.report.http import healthz_answer

WELL = {"store": True, "devices": True}
ILL = {"store": True, "devices": False}


@pytest.mark.parametrize(
    ("path", "query", "serving", "told"),
    [
        ("/healthz", "", WELL, (200, "ok\n")),
        ("/healthz", "verbose", WELL, (200, "[+]store ok\n[+]device-plugin ok\nhealthz check passed\n")),
        ("/healthz/store", "verbose=true", WELL, (200, "[+]store ok\nhealthz check passed\n")),
        ("/healthz", "", ILL, (500, "[+]store ok\n[-]device-plugin failed\nhealthz check failed\n")),
        ("/healthz/store", "", ILL, (200, "ok\n")),
        ("/healthz/device-plugin", "", ILL, (500, "[-]device-plugin failed\nhealthz check failed\n")),
        ("/healthz/devices", "", WELL, (404, "no part devices here; there are store device-plugin\n")),
    ],
)
def test_the_page(path: str, query: str, serving: dict[str, bool], told: tuple[int, str]) -> None:
    assert healthz_answer(path, query, serving) == told

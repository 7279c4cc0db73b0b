"""What the reports of kills mean for `--lf` and the end of the session, also with pytest-xdist."""

from typing import Any

import pytest

OF, NOTE = "kill_at_every_step of", "kill_at_every_step"
"""User properties of reports: the id of the marked test, and which of its kills were chosen."""


class StepReports:
    def __init__(self, session: pytest.Session) -> None:
        self._session = session
        self._tests: dict[str, str] = {}
        self._notes: dict[str, None] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = dict(report.user_properties)
        if OF in properties:
            if hasattr(report, "node") and report.nodeid not in self._tests:  # of a worker, which counts for itself
                self._session.testscollected += 1
            self._tests[report.nodeid] = str(properties[OF])
            self._notes[str(properties[NOTE])] = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Let `--lf` select the tests whose kills failed: it knows no items that are not collected."""
        plugin = self._session.config.pluginmanager.get_plugin("lfplugin")
        failed: dict[object, bool] = getattr(plugin, "lastfailed", {})  # by ids, which are texts before pytest 9.2
        for nodeid in [failure for failure in failed if str(failure) in self._tests]:
            del failed[nodeid]
            failed[self._tests[str(nodeid)]] = True

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self._notes:
            terminalreporter.section(NOTE)
        for note in self._notes:
            terminalreporter.write_line(note)

"""Files that `nodeplane conform` writes."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.product import ROOT as REPO

WRITE = """
import argparse, sys
from supervisor.cli.operate.conform import write_reports
write_reports(["h\\u00e4rte"], [], argparse.Namespace(output="text", junit=sys.argv[1], html=None))
"""


def test_report_is_utf8_whatever_the_locale_has(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "utf8=0", "-c", WRITE, str(tmp_path / "junit.xml")]
    subprocess.run(command, cwd=REPO, env={**os.environ, "LC_ALL": "C"}, check=True, capture_output=True)
    assert "h\u00e4rte" in (tmp_path / "junit.xml").read_text("utf-8")

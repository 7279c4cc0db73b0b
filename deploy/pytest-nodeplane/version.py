"""Tell hatchling the version: that of the nodeplane in whose tree this is."""

import runpy
from email.parser import HeaderParser
from pathlib import Path

HERE = Path(__file__).resolve().parent


def version() -> str:
    """Return the version of PKG-INFO in a source distribution, else the one that deploy/build.py computes."""
    metadata = HERE / "PKG-INFO"
    if metadata.exists():
        return str(HeaderParser().parsestr(metadata.read_text())["Version"])
    return str(runpy.run_path(str(HERE.parent / "build.py"))["version"]())

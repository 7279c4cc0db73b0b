"""The version of the installed program."""

import sys
from pathlib import Path

DISTRIBUTION, SUFFIX = "nodeplane-", ".dist-info"
UNKNOWN = "unknown (not installed)"


def installed_version() -> str:
    """Return the version of nodeplane's distribution, or UNKNOWN.

    It is read from the name of the distribution's directory, since importlib.metadata costs an actor 50 ms and 1.4 MB.
    """
    paths = (path for folder in sys.path for path in Path(folder).glob(f"{DISTRIBUTION}*{SUFFIX}"))
    return next((path.name.removeprefix(DISTRIBUTION).removesuffix(SUFFIX) for path in paths), UNKNOWN)

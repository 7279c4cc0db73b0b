"""Settings for actors that a test starts without a supervisor."""

from pathlib import Path
from typing import Any

import msgspec

from protocols.process.settings import Settings
from supervisor.base.options import PlaneOptions
from supervisor.base.settings import settings_of


def plane_settings(root: Path, **changes: Any) -> Settings:
    """Return what `nodeplane up` writes by default, with changes. Nobody serves an API at its port.

    Pods need no service account: nothing creates the default ones where no controllers run.
    """
    options = PlaneOptions(root=str(root), node_name="n1", metrics_port=0, disable_admission_plugins="ServiceAccount")
    made = settings_of(options, 1)
    return msgspec.structs.replace(made, **changes)


BRIEF_GO = {"GOGC": "off", "GOMEMLIMIT": "200MiB"}
"""For kubectl, a thousand times a run: a fifth of its processor time is garbage collection before its end."""

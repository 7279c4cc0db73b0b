"""Where a plane lives when nobody says where."""

import os
from pathlib import Path


def default_root() -> str:
    """NODEPLANE_ROOT, else /var/lib/nodeplane for root and ~/.local/state/nodeplane for others."""
    told = os.environ.get("NODEPLANE_ROOT")
    if told:
        return told
    return "/var/lib/nodeplane" if os.geteuid() == 0 else str(Path.home() / ".local/state/nodeplane")

"""Whether the plane can still be reached by its files: ROOT/run, or a single socket in it, may be removed under it."""

from collections.abc import Iterable
from pathlib import Path

from supervisor.root.stale import ENDPOINTS
from supervisor.tree.policy import Child
from supervisor.tree.types import SERVING


def unreachable(run_dir: Path, children: Iterable[Child]) -> list[str]:
    """Instances that serve, but whose sockets have no name any more: nobody new can come to them."""
    serving = (child.spec.instance for child in children if child.state in SERVING)
    return [name for name in serving if not has_endpoints(run_dir, name)]


def has_endpoints(run_dir: Path, name: str) -> bool:
    return all((run_dir / f"{name}{suffix}").exists() for suffix in ENDPOINTS)

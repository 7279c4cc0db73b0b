"""A pod's own /etc/hosts: the node's, with the pod's hostAliases. Pods without any see the node's."""

from pathlib import Path

from actors.podworker.types import Object, PodSpec
from actors.podworker.volumes.paths import pod_directory

PLACE = "/etc/hosts"
_HEAD = "\n# of the pod's hostAliases\n"


def aliases(spec: PodSpec) -> list[Object]:
    found: list[Object] = (spec.raw.get("spec") or {}).get("hostAliases") or []
    return found


def hosts_file(root: Path, uid: str) -> Path:
    return pod_directory(root, uid) / "etc-hosts"


def write_hosts(root: Path, spec: PodSpec) -> None:
    """Before each start of a container. Raises OSError."""
    if not aliases(spec):
        return
    path = hosts_file(root, spec.uid)
    try:
        own = Path(PLACE).read_text()
    except OSError:
        own = ""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(own.rstrip("\n") + _HEAD + "".join(_line(entry) for entry in aliases(spec)))
    path.chmod(0o644)


def _line(entry: Object) -> str:
    return "\t".join([str(entry.get("ip") or ""), *map(str, entry.get("hostnames") or ())]) + "\n"

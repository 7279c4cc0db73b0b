"""A pod's own /etc/hosts. On a network of its own it is made for the pod, as kubelet makes it; on the node's network it
is the node's, with what the pod adds. Pods that add nothing there see the node's itself."""

from pathlib import Path

from actors.podworker.containers.names import brings_names, qualified, short_name
from actors.podworker.types import Object, PodSpec
from actors.podworker.volumes.paths import pod_directory

PLACE = "/etc/hosts"
RESOLV = "/etc/resolv.conf"
LOOPBACK = "127.0.0.1"
TAB = "\t"
_MANAGED = "# Kubernetes-managed hosts file.\n"
_LOCAL = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)
_HEAD = "\n# of the pod's hostAliases\n"


def aliases(spec: PodSpec) -> list[Object]:
    found: list[Object] = (spec.raw.get("spec") or {}).get("hostAliases") or []
    return found


def has_hosts(spec: PodSpec, ip: str) -> bool:
    """`ip`: the pod's on a network of its own, empty on the node's."""
    return bool(ip or aliases(spec) or (brings_names(spec) and not spec.host_network))


def hosts_file(root: Path, uid: str) -> Path:
    return pod_directory(root, uid) / "etc-hosts"


def write_hosts(root: Path, spec: PodSpec, ip: str) -> None:
    """Before each start of a container. Raises OSError."""
    if not has_hosts(spec, ip):
        return
    path = hosts_file(root, spec.uid)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content(spec, ip, "" if ip else read(PLACE)))
    path.chmod(0o644)


def content(spec: PodSpec, ip: str, own: str) -> str:
    """`own`: the node's file. Pure."""
    text = _MANAGED + _LOCAL if ip else own.rstrip("\n") + "\n"
    if ip or (brings_names(spec) and not spec.host_network):
        names = dict.fromkeys((qualified(spec), short_name(spec)))
        text += f"{ip or LOOPBACK}\t{TAB.join(names)}\n"
    return text + (_HEAD + "".join(_line(entry) for entry in aliases(spec)) if aliases(spec) else "")


def read(place: str) -> str:
    """Empty where there is none."""
    try:
        return Path(place).read_text(errors="replace")
    except OSError:
        return ""


def _line(entry: Object) -> str:
    return "\t".join([str(entry.get("ip") or ""), *map(str, entry.get("hostnames") or ())]) + "\n"

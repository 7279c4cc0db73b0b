"""Host name, DNS configuration and /etc/hosts of a pod.

The hosts file is kubelet's. Pods of the embedded runtime are on the node's network: theirs has the node's entries, too.
Where it cannot be mounted (other users than root), pods that add nothing to it see the node's file itself.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from actors.podworker.model.errors import HostnameTooLong
from actors.podworker.pods.volumes.paths import pod_directory
from protocols.kinds import views
from protocols.lifecycle.pods.types import PodSpec
from protocols.wire import cri_pb2

CLUSTER_DOMAIN = "cluster.local"
LONGEST, LONGEST_FQDN = 63, 64
MAX_SERVERS, MAX_SEARCHES, SEARCH_CHARACTERS, LONGEST_SEARCH = 3, 32, 2048, 253
"""Limits of a resolver's configuration: nameservers, search paths, their characters in all, those of one."""
PLACE = "/etc/hosts"
RESOLV = "/etc/resolv.conf"
LOOPBACK = "127.0.0.1"
TAB = "\t"
_MANAGED = "# Kubernetes-managed hosts file.\n"
_MANAGED_NODE = "# Kubernetes-managed hosts file (host network).\n"
_LOCAL = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)
_HEAD = "\n# Entries added by HostAliases.\n"


def hostname(spec: PodSpec) -> str:
    """Return the sandbox's host name; empty for the node's. Raises HostnameTooLong, with upstream's message."""
    pod = spec.raw.get("spec") or {}
    if pod.get("hostnameOverride"):
        return str(pod["hostnameOverride"])
    if spec.host_network:
        return ""
    if not pod.get("setHostnameAsFQDN"):
        return short_name(spec)
    if len(fqdn := qualified(spec)) > LONGEST_FQDN:
        raise HostnameTooLong(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long ({LONGEST_FQDN} "
            f"characters is the max, {len(fqdn)} characters requested)"
        )
    return fqdn


def short_name(spec: PodSpec) -> str:
    """Return the pod's host name without a domain, cut to the length that Linux takes."""
    name = str((spec.raw.get("spec") or {}).get("hostname") or spec.name)
    return name[:LONGEST].rstrip("-.")


def qualified(spec: PodSpec) -> str:
    """Return the host name with the domain of its subdomain, or the short name if it has none."""
    subdomain = (spec.raw.get("spec") or {}).get("subdomain")
    domain = f".{subdomain}.{spec.namespace}.svc.{CLUSTER_DOMAIN}" if subdomain else ""
    return short_name(spec) + domain


def brings_names(spec: PodSpec) -> bool:
    """Return True if the spec sets host name or subdomain."""
    pod = spec.raw.get("spec") or {}
    return any(pod.get(field) for field in ("hostname", "subdomain", "hostnameOverride"))


def needs_resolv(spec: PodSpec) -> bool:
    """Return True if the pod extends the node's resolver configuration."""
    pod = spec.raw.get("spec") or {}
    return bool(pod.get("dnsConfig")) and pod.get("dnsPolicy") != "None"


def dns_config(spec: PodSpec, resolv: str) -> "cri_pb2.DNSConfig | None":
    """Return the DNS configuration within upstream's limits, None for the node's. `resolv`: the node's resolv.conf.

    There is no cluster DNS: ClusterFirst is like Default.
    """
    whole = _joined_config(spec, resolv)
    if whole is None:
        return None
    servers, searches = whole.servers[:MAX_SERVERS], _fitting(whole.searches)
    return cri_pb2.DNSConfig(servers=servers, searches=searches, options=whole.options)


def dns_excess(spec: PodSpec, resolv: str) -> list[str]:
    """Return upstream's texts for what the configurations of pod and node have beyond the limits."""
    whole, applied = _joined_config(spec, resolv), dns_config(spec, resolv)
    if whole is None or applied is None:
        return []
    texts = []
    if len(applied.servers) < len(whole.servers):
        omitted = "Nameserver limits were exceeded, some nameservers have been omitted"
        texts.append(f"{omitted}, the applied nameserver line is: {' '.join(applied.servers)}")
    if len(applied.searches) < len(whole.searches):
        omitted = "Search Line limits were exceeded, some search paths have been omitted"
        texts.append(f"{omitted}, the applied search line is: {' '.join(applied.searches)}")
    return texts


def _joined_config(spec: PodSpec, resolv: str) -> "cri_pb2.DNSConfig | None":
    given = (spec.raw.get("spec") or {}).get("dnsConfig") or {}
    if not given:
        return None
    own = _parsed(resolv) if needs_resolv(spec) else cri_pb2.DNSConfig()
    return cri_pb2.DNSConfig(
        servers=_joined(own.servers, given.get("nameservers")),
        searches=_joined(own.searches, given.get("searches")),
        options=_options(own.options, given.get("options") or []),
    )


def _fitting(searches: Sequence[str]) -> list[str]:
    """Return the search paths within the limits: the first ones, without those that a resolver may abort at."""
    fitting = [path for path in searches[:MAX_SEARCHES] if len(path) <= LONGEST_SEARCH]
    while len(" ".join(fitting)) > SEARCH_CHARACTERS:
        fitting.pop()
    return fitting


def _joined(first: Iterable[str], more: list[str] | None) -> list[str]:
    return list(dict.fromkeys([*first, *map(str, more or ())]))


def _options(first: Iterable[str], given: list[views.PodDNSConfigOption]) -> list[str]:
    """Join resolver options; those of the pod override the node's."""
    known = {name: value for name, _, value in (option.partition(":") for option in first)}
    known |= {str(option.get("name") or ""): str(option.get("value") or "") for option in given}
    return [f"{name}:{value}" if value else name for name, value in known.items() if name]


def _parsed(resolv: str) -> "cri_pb2.DNSConfig":
    config = cri_pb2.DNSConfig()
    for line in resolv.splitlines():
        word, *rest = line.split("#")[0].split(";")[0].split() or [""]
        if word == "nameserver" and rest:
            config.servers.append(rest[0])
        elif word == "search":
            del config.searches[:]
            config.searches.extend(path.removesuffix(".") or path for path in rest)
        elif word == "options":
            config.options.extend(rest)
    return config


def aliases(spec: PodSpec) -> list[views.HostAlias]:
    """Return the pod's own lines of /etc/hosts."""
    return (spec.raw.get("spec") or {}).get("hostAliases") or []


def has_hosts(spec: PodSpec, ips: tuple[str, ...], mounted: bool = False) -> bool:
    """Return True if the pod gets its own /etc/hosts.

    `ips`: of the pod on a network of its own, else empty. `mounted`: the runtime mounts files at their paths.
    """
    return bool(mounted or ips or aliases(spec) or (brings_names(spec) and not spec.host_network))


def hosts_file(root: Path, uid: str) -> Path:
    """Return the path of the pod's /etc/hosts on this host."""
    return pod_directory(root, uid) / "etc-hosts"


def write_hosts(root: Path, spec: PodSpec, ips: tuple[str, ...], mounted: bool = False) -> None:
    """Write the pod's hosts file, before each start of a container. Raises OSError."""
    if not has_hosts(spec, ips, mounted):
        return
    path = hosts_file(root, spec.uid)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content(spec, ips, "" if ips else read(PLACE)))
    path.chmod(0o644)


def content(spec: PodSpec, ips: tuple[str, ...], own: str) -> str:
    """Return the content of the hosts file. `own`: the node's file. Pure."""
    nodes = own.rstrip("\n") + "\n"
    text = _MANAGED + _LOCAL if ips else (_MANAGED_NODE if spec.host_network else _MANAGED) + nodes
    if not spec.host_network:
        names = TAB.join(dict.fromkeys((qualified(spec), short_name(spec))))
        text += "".join(f"{ip}\t{names}\n" for ip in ips or (LOOPBACK,))
    return text + (_HEAD + "".join(_line(entry) for entry in aliases(spec)) if aliases(spec) else "")


def read(place: str) -> str:
    """Return the file's text; empty if it cannot be read."""
    try:
        return Path(place).read_text(errors="replace")
    except OSError:
        return ""


def _line(entry: views.HostAlias) -> str:
    return "\t".join([str(entry.get("ip") or ""), *map(str, entry.get("hostnames") or ())]) + "\n"

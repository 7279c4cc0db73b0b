"""What a pod is called from within: host name, domain, and where it looks up the names of others. Pure."""

from collections.abc import Iterable

from actors.podworker.types import Object, PodSpec
from protocols.wire import cri_pb2

CLUSTER_DOMAIN = "cluster.local"
LONGEST = 63


def hostname(spec: PodSpec) -> str:
    """Of the sandbox; empty: the node's."""
    pod = spec.raw.get("spec") or {}
    if pod.get("hostnameOverride"):
        return str(pod["hostnameOverride"])
    if spec.host_network:
        return ""
    return qualified(spec) if pod.get("setHostnameAsFQDN") else short_name(spec)


def short_name(spec: PodSpec) -> str:
    name = str((spec.raw.get("spec") or {}).get("hostname") or spec.name)
    return name[:LONGEST].rstrip("-.")


def qualified(spec: PodSpec) -> str:
    """With the domain of its subdomain; without one, the short name."""
    subdomain = (spec.raw.get("spec") or {}).get("subdomain")
    domain = f".{subdomain}.{spec.namespace}.svc.{CLUSTER_DOMAIN}" if subdomain else ""
    return short_name(spec) + domain


def brings_names(spec: PodSpec) -> bool:
    """It says what it is to be called."""
    pod = spec.raw.get("spec") or {}
    return any(pod.get(field) for field in ("hostname", "subdomain", "hostnameOverride"))


def needs_resolv(spec: PodSpec) -> bool:
    """Its resolver is the node's, with more."""
    pod = spec.raw.get("spec") or {}
    return bool(pod.get("dnsConfig")) and pod.get("dnsPolicy") != "None"


def dns_config(spec: PodSpec, resolv: str) -> "cri_pb2.DNSConfig | None":
    """None: the node's, which is what `resolv` says. There is no cluster DNS: ClusterFirst is as Default."""
    pod = spec.raw.get("spec") or {}
    given = pod.get("dnsConfig") or {}
    if not given:
        return None
    own = _parsed(resolv) if needs_resolv(spec) else cri_pb2.DNSConfig()
    return cri_pb2.DNSConfig(
        servers=_joined(own.servers, given.get("nameservers")),
        searches=_joined(own.searches, given.get("searches")),
        options=_options(own.options, given.get("options") or []),
    )


def _joined(first: Iterable[str], more: list[str] | None) -> list[str]:
    return list(dict.fromkeys([*first, *map(str, more or ())]))


def _options(first: Iterable[str], given: list[Object]) -> list[str]:
    """The pod's own word about an option holds."""
    known = {name: value for name, _, value in (option.partition(":") for option in first)}
    known |= {str(option.get("name") or ""): str(option.get("value") or "") for option in given}
    return [f"{name}:{value}" if value else name for name, value in known.items() if name]


def _parsed(resolv: str) -> "cri_pb2.DNSConfig":
    found = cri_pb2.DNSConfig()
    for line in resolv.splitlines():
        word, *rest = line.split("#")[0].split(";")[0].split() or [""]
        if word == "nameserver" and rest:
            found.servers.append(rest[0])
        elif word == "search":
            del found.searches[:]
            found.searches.extend(rest)
        elif word == "options":
            found.options.extend(rest)
    return found

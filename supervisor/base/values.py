"""Check single values of flags. Every function raises UsageError with the flag, the value and the valid values."""

import contextlib
import grp
import ipaddress
import os
import re
import socket
from pathlib import Path
from urllib.parse import urlsplit

from protocols.errors import SettingsInvalid
from protocols.kube.errors import QuantityInvalid
from protocols.kube.quantity import parse_quantity
from protocols.kube.request_uri import uri_host
from protocols.messages.podworker import SERVING_SUFFIX
from protocols.node import sysctls
from protocols.node.cpulist import format_list, parse_list
from protocols.process.layout import SOCKET_PATH_LIMIT
from protocols.process.settings import GATES
from supervisor.base.errors import UsageError
from supervisor.base.options import LOOPBACK

ADMISSION_PLUGINS = ("ServiceAccount",)
LEAST_ADDRESSES = 8
"""Smallest range of services, upstream's."""
NOWHERE = {
    4: (socket.AF_INET, "192.0.2.1", LOOPBACK),
    6: (socket.AF_INET6, "2001:db8::1", "::1"),
}
"""Addresses of documentation by IP version: connecting a datagram socket to one sends nothing but selects the local
address."""
LEAST_RECORDING, MOST_RECORDING = 1 << 20, 1 << 30
"""Bytes; a larger recording would not be read."""
NODE_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def bind_address(value: str, flag: str = "--bind-address") -> str:
    """Check an IP address to listen on; return it in its short form."""
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise UsageError(f"{flag} {value!r} is no IP address; use 0.0.0.0 for all of this machine's") from None


def sysfs_root(text: str, reserved: str) -> str:
    """Return the absolute path of a directory that describes CPUs, of which some that are `reserved` are online."""
    root = os.path.abspath(os.path.expanduser(text))
    described = Path(root, "sys/devices/system/cpu")
    if not described.is_dir():
        raise UsageError(f"--sysfs-root {text} has no directory sys/devices/system/cpu, which describes its CPUs")
    with contextlib.suppress(OSError):  # all are online where no file lists them
        online = parse_list((described / "online").read_text())
        if reserved and not parse_list(reserved) & online:
            raise UsageError(f"--reserved-cpus {reserved} names no CPU that is online; there are {format_list(online)}")
    return root


def otlp(text: str) -> str:
    """Return the URL to post spans to; a URL without a path gets that of OTLP. Empty: spans are not exported."""
    if not text:
        return ""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets without an address, or a port that is no number
        good = False
    if not good or not text.isprintable() or " " in text or parts.query or parts.fragment:
        raise UsageError(f"--otlp {text!r} is no URL of a receiver; write it like http://127.0.0.1:4318")
    return text if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/v1/traces"


def node_ip(text: str) -> str:
    """Return the address; empty for loopback, which other machines cannot reach."""
    ip = ipaddress.ip_address(bind_address(text, "--node-ip")) if text else None
    if ip is not None and ip.is_unspecified:
        raise UsageError(f"--node-ip {text} is no address of one machine; name the one that the API server can reach")
    return "" if ip is None or ip.is_loopback else str(ip)


def reached_at(address: str) -> str:
    """Return the host part of URLs by which clients of this machine reach a server bound to `address`."""
    ip = ipaddress.ip_address(bind_address(address))
    if ip.is_unspecified:
        return LOOPBACK if ip.version == 4 else "[::1]"
    return str(ip) if ip.version == 4 else f"[{ip}]"


def advertise_address(text: str, bound: str) -> str:
    """Return the address by which pods and other clients reach an API bound to `bound`."""
    bound = bind_address(bound)
    if text:
        ip = ipaddress.ip_address(bind_address(text, "--advertise-address"))
        if ip.is_unspecified:
            raise UsageError(f"--advertise-address {text} is no address of one machine; name the one that clients use")
        return str(ip)
    return own_address(ipaddress.ip_address(bound).version) if ipaddress.ip_address(bound).is_unspecified else bound


def own_address(version: int) -> str:
    """Return the address that other machines would see; loopback without a network."""
    family, nowhere, loopback = NOWHERE[version]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((nowhere, 9))
        except OSError:
            return loopback
        return str(probe.getsockname()[0])


def api_names(text: str, bound: str, advertised: str = LOOPBACK) -> tuple[str, ...]:
    """Return the additional names of the API's certificate."""
    names = list(filter(None, text.split(",")))
    for name in names:
        if not NODE_NAME.fullmatch(name) and not _is_address(name):
            raise UsageError(f"--api-names: {name!r} is no DNS name or IP address")
        if name.endswith(SERVING_SUFFIX):
            raise UsageError(f"--api-names: {name!r} is a name that nodes serve by; use another")
    bound = bind_address(bound)
    own = () if ipaddress.ip_address(bound).is_unspecified or bound == LOOPBACK else (bound,)
    announced = () if ipaddress.ip_address(advertised).is_loopback or advertised in (*own, *names) else (advertised,)
    return (*own, *names, *announced)


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def runtime_endpoint(value: str) -> str:
    """Return the target of an external CRI runtime, or "" for the embedded one."""
    if value == "embedded":
        return ""
    if not value.startswith("unix:///"):
        raise UsageError(f"--runtime {value!r} is no runtime; use embedded or unix:///PATH/OF/ITS.sock")
    return value


def node_name(value: str, mend: str = "give --node-name") -> str:
    """Check a node's name; empty: the host's name in lower case."""
    name = value or socket.gethostname().lower()
    if not NODE_NAME.fullmatch(name) or len(name) > 253:
        raise UsageError(f"node name {name!r} is no DNS name (lower case letters, digits, - and .); {mend}")
    return name


def feature_gates(text: str) -> dict[str, bool]:
    """Parse `Name=false,Other=true`."""
    gates = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in GATES:
            raise UsageError(f"no feature gate is called {name!r}; there are {', '.join(GATES)}")
        if value.lower() not in ("true", "false"):
            raise UsageError(f"feature gate {name}={value}: the value is true or false")
        gates[name] = value.lower() == "true"
    return gates


def admission_plugins(text: str) -> tuple[str, ...]:
    """Parse the admission plugins to turn off, by upstream's names."""
    names = tuple(filter(None, text.split(",")))
    for name in names:
        if name not in ADMISSION_PLUGINS:
            raise UsageError(
                f"--disable-admission-plugins: {name!r} cannot be disabled; use {', '.join(ADMISSION_PLUGINS)}"
            )
    return names


VERSIONS = ("resource.k8s.io/v1alpha3", "resource.k8s.io/v1beta1")
"""API versions that can be turned off: the plane itself needs no others of their objects."""


def disabled_versions(text: str) -> tuple[str, ...]:
    """Parse --runtime-config into the API versions that are turned off; the last mention of one counts."""
    wanted: dict[str, bool] = {}
    for part in filter(None, text.split(",")):
        version, _, value = part.partition("=")
        if version not in VERSIONS or value not in ("true", "false"):
            raise UsageError(
                f"--runtime-config: {part!r} is not NAME=true or NAME=false with one of {', '.join(VERSIONS)}"
            )
        wanted[version] = value == "true"
    return tuple(version for version, on in wanted.items() if not on)


def service_ranges(text: str) -> str:
    """Check the CIDRs of services: one, or one of each IP family."""
    flag, ranges = "--service-cluster-ip-range", []
    for part in text.split(","):
        try:
            network = ipaddress.ip_network(part)
        except ValueError as error:
            raise UsageError(f"{flag} {part!r} is no CIDR: {error}; write it like 10.96.0.0/16") from None
        if network.num_addresses < LEAST_ADDRESSES:
            raise UsageError(f"{flag} {part} has {network.num_addresses} addresses; use {LEAST_ADDRESSES} or more")
        ranges.append(network)
    if len(ranges) > 2 or (len(ranges) == 2 and ranges[0].version == ranges[1].version):
        raise UsageError(f"{flag} {text}: use one CIDR, or an IPv4 and an IPv6 one")
    return ",".join(map(str, ranges))


def leader_elect(value: str, alone: bool) -> bool:
    """Resolve `auto`: elect a leader where other control planes may use the same store."""
    return value == "true" or (value == "auto" and not alone)


def health_address(text: str) -> str:
    """Check `IP:PORT`; empty stays empty."""
    if not text:
        return ""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise UsageError(f"--pod-resources-health-address {text!r} is no IP:PORT")
    bound = bind_address(host.strip("[]"), "--pod-resources-health-address")
    return f"{uri_host(bound)}:{port}"


def group(name: str, flag: str) -> str:
    """Return the number of a group of this machine; empty stays empty."""
    try:
        return name if not name or name.isdecimal() else str(grp.getgrnam(name).gr_gid)
    except KeyError:
        raise UsageError(f"{flag} {name!r} is no group of this machine; use another name, or its number") from None


def port(value: int, flag: str) -> int:
    """Check a port; 0 stands for a free one."""
    if not 0 <= value <= 65535:
        raise UsageError(f"{flag} {value} is no port; use 0 to 65535 (0 = a free one)")
    return value


def size(text: str, flag: str) -> int:
    """Return a size in bytes from a quantity above zero."""
    try:
        size_bytes = parse_quantity(text).value()
    except QuantityInvalid:
        size_bytes = 0
    if size_bytes <= 0:
        raise UsageError(f"{flag} {text!r} is no size; write it like 10Mi or 500k")
    return size_bytes


def quota(text: str, flag: str) -> int:
    """Parse a size, or 0 for no quota."""
    return 0 if text.strip() == "0" else size(text, flag)


def record_limit(text: str) -> int:
    """Return the bytes of a recording; too few would not hold the state of a plane."""
    limit = size(text, "--record-limit")
    if not LEAST_RECORDING <= limit <= MOST_RECORDING:
        raise UsageError(f"--record-limit {text}: use 1Mi to 1Gi")
    return limit


def at_least(least: int, value: int, flag: str) -> int:
    """Check a number's lower bound."""
    if value < least:
        raise UsageError(f"{flag} {value} is too few; use {least} or more")
    return value


def socket_path(path: str, flag: str) -> str:
    """Return the absolute path of a socket; a directory, or a path too long for the kernel, is none."""
    whole = os.path.abspath(os.path.expanduser(path.removeprefix("unix://")))
    if len(whole.encode()) > SOCKET_PATH_LIMIT:
        raise UsageError(f"{flag} {whole} has more than {SOCKET_PATH_LIMIT} bytes; use a shorter path")
    if os.path.isdir(whole):
        raise UsageError(f"{flag} {whole} is a directory; name the socket in it")
    return whole


def seconds(value: int, flag: str) -> int:
    """Check a number of seconds; 0 stands for never."""
    if value < 0:
        raise UsageError(f"{flag} {value} is no number of seconds; use 0 (never) or more")
    return value


def unsafe_sysctls(text: str) -> tuple[str, ...]:
    """Parse --allowed-unsafe-sysctls."""
    try:
        return sysctls.unsafe_sysctls(text)
    except SettingsInvalid as error:
        raise UsageError(f"--allowed-unsafe-sysctls: {error}") from None


def one_of(value: str, allowed: tuple[str, ...], flag: str) -> str:
    """Check a value of a fixed set."""
    if value not in allowed:
        raise UsageError(f"{flag} {value!r} is none of {', '.join(allowed)}")
    return value

"""Values that several kinds have: addresses, ports, paths, modes, names of resources."""

import ipaddress
import re
from collections.abc import Callable, Iterable
from typing import Any

from protocols.kinds.check.causes import invalid, required, too_long
from protocols.kinds.check.table import Causes, Check, between, texts
from protocols.kube.meta import Object
from protocols.kube.names import (
    label_faults,
    label_value_faults,
    path_segment_faults,
    qualified_faults,
    subdomain_faults,
)

MAX_INT32 = 2**31 - 1
PROTOCOLS = ("SCTP", "TCP", "UDP")
IP_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
CIDR_TEXT = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
MODE_TEXT = "must be a number between 0 and 0777 (octal), both inclusive"
KEY_TEXT = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
_LEADING_ZEROS = re.compile(r"(^|\.)0+(?=\d)")
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_PORT = re.compile(r"[-a-z0-9]+")
NAME_MAX = 253
DRIVER_MAX = 63


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an IP address as Go's lenient parser reads it, which allows leading zeros; None if it is none."""
    if "%" in text:
        return None
    try:
        return ipaddress.ip_address(text if ":" in text else _LEADING_ZEROS.sub(r"\1", text))
    except ValueError:
        return None


def ip_faults(text: str) -> list[str]:
    """Return upstream's text if `text` is no IP address of either family."""
    return [] if address(text) is not None else [IP_TEXT]


def special_faults(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> Iterable[str]:
    """Yield why an address is none of a machine or service."""
    if address.is_unspecified:
        yield f"may not be unspecified ({address})"
    if address.is_loopback:
        yield "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    if address.is_link_local:
        yield "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    if address.is_multicast and address.packed[:3] in (b"\xe0\x00\x00", b"\xff\x02\x00"):
        yield "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"


def cidr_faults(text: str) -> list[str]:
    """Return upstream's text if `text` is no CIDR; host bits may be set."""
    host, _, bits = text.partition("/")
    parsed = address(host)
    length = bits.lstrip("0")[:4] or bits[:1]
    valid = parsed is not None and bits.isdecimal() and bits.isascii() and int(length) <= parsed.max_prefixlen
    return [] if valid else [CIDR_TEXT]


LEADING_ZEROS, LEADING_ZEROS_OF_CIDR = "must not have leading 0s", "must not have leading 0s in IP or prefix length"
MAPPED, MAPPED_CIDR = "must not be an IPv4-mapped IPv6 address", "must not have an IPv4-mapped IPv6 address"
HOST_BITS = "must not have bits set beyond the prefix length"
UNUSUAL = (LEADING_ZEROS, LEADING_ZEROS_OF_CIDR, MAPPED, MAPPED_CIDR, HOST_BITS)


def strict_ip_faults(text: str) -> list[str]:
    """Return upstream's text if `text` is no IP address, or one that other programs may read differently."""
    if faults := ip_faults(text):
        return faults
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return [LEADING_ZEROS]
    return [MAPPED] if getattr(parsed, "ipv4_mapped", None) else []


def strict_cidr_faults(text: str) -> list[str]:
    """Return upstream's text if `text` is no CIDR of a network, or one that other programs may read differently."""
    if faults := cidr_faults(text):
        return faults
    host, _, bits = text.partition("/")
    faults = strict_ip_faults(host)
    if LEADING_ZEROS in faults or bits != (bits.lstrip("0") or "0"):
        return [LEADING_ZEROS_OF_CIDR]
    if faults:
        return [MAPPED_CIDR]
    network = ipaddress.ip_network(text, strict=False)
    return [HOST_BITS] if network.network_address != ipaddress.ip_address(host) else []


def without_stored(causes: Causes, stored: Callable[[], Causes], ratcheted: str = "") -> Causes:
    """Drop causes that the stored object has, too: those below the path `ratcheted`, and those about unusual addresses.

    Upstream accepted such addresses before 1.36.
    """
    prefix = f"{ratcheted}."
    below = {cause for cause in causes if ratcheted and cause.field.startswith(prefix)}
    unusual = {cause.message for cause in causes if cause.message.endswith(UNUSUAL)}
    if below or unusual:
        before = stored()
        below.intersection_update(before)
        unusual.intersection_update(cause.message for cause in before)
    return [cause for cause in causes if cause not in below and cause.message not in unusual]


def _port_name_faults(text: str) -> list[str]:
    faults = ["must be no more than 15 characters"] if len(text.encode("utf-8", "replace")) > 15 else []
    if not _PORT.fullmatch(text):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", text):
        faults.append("must contain at least one letter (a-z)")
    if "--" in text:
        faults.append("must not contain consecutive hyphens")
    if text[:1] == "-" or text[-1:] == "-":
        faults.append("must not begin or end with a hyphen")
    return faults


def config_key_faults(text: str) -> list[str]:
    """Return upstream's texts about a key of a ConfigMap or Secret, which becomes a file name in volumes."""
    faults = [f"must be no more than {NAME_MAX} characters"] if len(text.encode("utf-8", "replace")) > NAME_MAX else []
    if not _KEY.fullmatch(text):
        return [*faults, KEY_TEXT]
    if text in (".", ".."):
        return [*faults, f"must not be '{text}'"]
    return [*faults, "must not start with '..'"] if text.startswith("..") else faults


def descending_faults(text: str) -> list[str]:
    """Check a relative path that stays below its root."""
    faults = ["must be a relative path"] if text.startswith("/") else []
    return faults + backstep_faults(text)


def backstep_faults(text: str) -> list[str]:
    """Return upstream's text about a path that has an element `..`."""
    return ["must not contain '..'"] if ".." in text.split("/") else []


def unreserved_faults(text: str) -> list[str]:
    """Check a relative path whose name is not that of a volume's own files."""
    begins = text.startswith("..") and not text.startswith("../")
    return descending_faults(text) + (["must not start with '..'"] if begins else [])


path_segment = texts(path_segment_faults)
subdomain = texts(subdomain_faults)
node_name = texts(subdomain_faults, empty=True)
label = texts(label_faults)
label_key = texts(qualified_faults, empty=True)
label_value = texts(label_value_faults)
ip = texts(ip_faults, empty=True)
cidr = texts(cidr_faults, empty=True)
config_key = texts(config_key_faults)
port_name = texts(_port_name_faults)
port_number = between(1, 65535)
identity = between(0, MAX_INT32)
mode: Check = between(0, 0o777, MODE_TEXT)


def port(path: str, value: int | str, causes: Causes) -> None:
    """Check a port that is a number or the name of one."""
    if isinstance(value, int):
        port_number(path, value, causes)
    else:
        causes.extend(invalid(path, value, fault) for fault in _port_name_faults(value))


def labels(path: str, value: Object, causes: Causes) -> None:
    """Check keys and values of labels."""
    for key, text in value.items():
        label_key(path, key, causes)
        label_value(path, text, causes)


def longest(limit: int) -> Check:
    """Check the bytes of a text."""

    def check(path: str, value: str, causes: Causes) -> None:
        if len(value.encode("utf-8", "replace")) > limit:
            causes.append(too_long(path, limit))

    return check


def driver_name(path: str, name: str, causes: Causes) -> None:
    """Check the name of a driver of volumes or devices, in which case is ignored."""
    if not name:
        causes.append(required(path))
        return
    if len(name) > DRIVER_MAX:
        causes.append(too_long(path, DRIVER_MAX))
    causes.extend(invalid(path, name, fault) for fault in subdomain_faults(name.lower()))


def positive(path: str, value: Any, causes: Causes) -> None:
    """Check that a number is above zero."""
    if value <= 0:
        causes.append(invalid(path, value, "must be greater than 0"))

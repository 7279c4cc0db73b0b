"""Check request targets: an absolute URL or an absolute path, by the rules of Go's net/url.

Error texts are those of net/url, since clients of Kubernetes know them.
"""

import ipaddress
import re
from collections.abc import Callable

CONTROL = re.compile(r"[\x00-\x1f\x7f]")
SCHEME = re.compile(r"([A-Za-z][-+.A-Za-z0-9]*):")
PORT = re.compile(r"(:[0-9]*)?")
USER = re.compile(r"[-A-Za-z0-9._:~!$&'()*+,;=%@]*")
HOST = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~!$&'()*+,;=:[]<>\"")
SHORT = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
SHORT |= {'"': '\\"', "\\": "\\\\"}


def uri_host(host: str) -> str:
    """Return a name or address as URIs have it before a port: one with colons in brackets."""
    return f"[{host}]" if ":" in host else host


def uri_fault(text: str) -> str:
    """Return why a text is no URI of a request; empty if it is one."""
    fault = _fault(text)
    return f"parse {_quoted(text)}: {fault}" if fault else ""


def _fault(text: str) -> str:
    if CONTROL.search(text):
        return "net/url: invalid control character in URL"
    if not text:
        return "empty url"
    if text == "*":
        return ""
    if text.startswith(":"):
        return "missing protocol scheme"
    scheme = SCHEME.match(text)
    rest = (text[scheme.end() :] if scheme else text).partition("?")[0]
    if not rest.startswith("/"):
        return "" if scheme else "invalid URI for request"
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        return _authority_fault(authority) or _escape_fault(slash + path)
    return _escape_fault(rest)


def _authority_fault(text: str) -> str:
    user, at, host = text.rpartition("@")
    fault = _host_fault(host)
    if fault or not at:
        return fault
    return _escape_fault(user) if USER.fullmatch(user) else "net/url: invalid userinfo"


def _host_fault(host: str) -> str:
    if host.startswith("["):
        return _literal_fault(host)
    colon = host.rfind(":")
    if colon >= 0 and not PORT.fullmatch(host[colon:]):
        return f"invalid port {_quoted(host[colon:])} after host"
    return _escape_fault(host, _of_host)


def _literal_fault(host: str) -> str:
    inside, bracket, port = host[1:].rpartition("]")
    if not bracket:
        return "missing ']' in host"
    if not PORT.fullmatch(port):
        return f"invalid port {_quoted(port)} after host"
    address, zone, name = inside.partition("%25")
    fault = _escape_fault(address, _of_host) or (_escape_fault(name, lambda byte, text: True) if zone else "")
    if fault:
        return fault
    try:
        literal = ipaddress.IPv6Address(address)
    except ValueError:
        return "invalid IP-literal"
    return "invalid IP-literal" if literal.ipv4_mapped else ""


def _of_host(byte: int, escape: str) -> bool:
    """Return True when a host may contain the escape: of ASCII only the percent sign itself."""
    return byte >= 0x80 or escape == "%25"


def _escape_fault(text: str, allowed: Callable[[int, str], bool] | None = None) -> str:
    """`allowed`: what may be escaped in a host; of a path everything may, and anything stands as it is."""
    at = text.find("%")
    while at >= 0:
        escape = text[at : at + 3]
        if not re.fullmatch(r"%[0-9A-Fa-f]{2}", escape) or (allowed and not allowed(int(escape[1:], 16), escape)):
            return f"invalid URL escape {_quoted(escape)}"
        at = text.find("%", at + 3)
    strange = next((char for char in text if char < "\x80" and char not in HOST and char != "%"), "") if allowed else ""
    return f"invalid character {_quoted(strange)} in host name" if strange else ""


def _quoted(text: str) -> str:
    """Return a text in quotes, escaped as Go does."""
    return '"' + "".join(SHORT.get(char) or _sayable(char) for char in text) + '"'


def _sayable(char: str) -> str:
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

"""Functions on IP addresses, networks and URLs."""

import ipaddress
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, urlsplit

from protocols.cel.libraries.quantities import BOOL, INT, STRING, Function, Price, reading
from protocols.kube.request_uri import uri_fault

IP, CIDR, URL, QUERY = "ip", "cidr", "url", "query"
LONGEST, DIGITS = 2048, 3
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Interface | ipaddress.IPv6Interface


_CONVERTED = "parse error during conversion from string"


def _read_ip(text: str) -> Address:
    """Raises ValueError; neither zones nor IPv4 written as IPv6 are addresses."""
    address = _parsed(text, f'IP Address "{text[:LONGEST]}" {_CONVERTED}: ')
    if isinstance(address, ipaddress.IPv6Address) and address.scope_id:
        raise ValueError(f'IP address "{text[:LONGEST]}" with zone value is not allowed')
    return _unmapped(address, text)


def _parsed(text: str, context: str) -> Address:
    try:
        return ipaddress.ip_address(text[:LONGEST])
    except ValueError:
        raise ValueError(f'{context}ParseAddr("{text[:LONGEST]}"): unable to parse IP') from None


def _unmapped(address: Address, text: str) -> Address:
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        raise ValueError(f'IPv4-mapped IPv6 address "{text[:LONGEST]}" is not allowed')
    return address


def _read_cidr(text: str) -> Network:
    context = f'network address {_CONVERTED}: netip.ParsePrefix("{text[:LONGEST]}"): '
    start, slash, bits = text.rpartition("/")
    if not slash:
        raise ValueError(f"{context}no '/'")
    address = _parsed(start, context)
    if not bits.isdecimal() or (len(bits) > 1 and bits[0] == "0"):
        raise ValueError(f'{context}bad bits after slash: "{bits[:LONGEST]}"')
    if len(bits) > DIGITS or int(bits) > address.max_prefixlen or "%" in start:
        fault = "IPv6 zones cannot be present in a prefix" if "%" in start else "prefix length out of range"
        raise ValueError(f"{context}{fault}")
    _unmapped(address, text)
    return ipaddress.ip_interface(text)


def _read_url(text: str) -> SplitResult:
    """Read an absolute one, or an absolute path, as Go's ParseRequestURI. Raises ValueError."""
    if fault := uri_fault(text):
        raise ValueError(f"URL {_CONVERTED}: {fault}")
    url = urlsplit(text)
    opaque = url.scheme and not text[len(url.scheme) + 1 :].startswith("/")
    return url._replace(path="") if opaque else url


_IN_PATH = "$&+,/:;=@!'()*[]~%"
"""Characters of a path that Go leaves as they are."""


READ: dict[str, Callable[[str], Any]] = {IP: _read_ip, CIDR: _read_cidr, URL: _read_url}
READING = {IP: 10, CIDR: 30, URL: 30}
"""Units of reading one: what it takes in Python."""


def _is(kind: str) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            READ[kind](text)
        except ValueError:
            return False
        return True

    return check


def _holds_ip(value: Network, other: Address | str) -> bool:
    address = _read_ip(other) if isinstance(other, str) else other
    network = value.network
    return address.version == network.version and address in network


def _holds_cidr(value: Network, other: Network | str) -> bool:
    inner = (_read_cidr(other) if isinstance(other, str) else other).network
    network = value.network
    return bool(inner.version == network.version and inner.subnet_of(network))  # type: ignore[arg-type]


def _global_unicast(address: Address) -> bool:
    special = address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
    return not special and str(address) != "255.255.255.255"


def _masked(value: Network) -> Network:
    return ipaddress.ip_interface(value.network)


def _host(url: SplitResult) -> str:
    return url.netloc.rpartition("@")[2]


def _port(url: SplitResult) -> str:
    after = _host(url).rpartition("]")[2] if "]" in _host(url) else _host(url)
    return after.rpartition(":")[2] if ":" in after else ""


def _of_text(url: SplitResult) -> int:
    return 10 + len(url.path) + len(url.query)


def _property(kind: str, name: str, result: str, read: Callable[[Any], Any], price: Price = 2) -> Function:
    return Function(name, f"{kind}_{name}", result, (kind,), read, price=price)


def _holding(value: Network, other: Any) -> int:
    """Upstream's price of comparing bytes, and reading the text; in Python it takes some 10 us."""
    return 20 + (reading(30)(other) if isinstance(other, str) else 0)


FUNCTIONS = (
    *(
        Function(kind, f"string_to_{kind}", kind, (STRING,), READ[kind], member=False, price=reading(READING[kind]))
        for kind in (IP, CIDR, URL)
    ),
    *(
        Function(name, f"is_{kind}_string", BOOL, (STRING,), _is(kind), member=False, price=reading(READING[kind]))
        for name, kind in (("isIP", IP), ("isCIDR", CIDR), ("isURL", URL))
    ),
    Function(
        "ip.isCanonical",
        "ip_canonical",
        BOOL,
        (STRING,),
        lambda text: str(_read_ip(text)) == text,
        member=False,
        price=reading(20),
    ),
    _property(IP, "family", INT, lambda address: address.version),
    _property(IP, "isUnspecified", BOOL, lambda address: address.is_unspecified),
    _property(IP, "isLoopback", BOOL, lambda address: address.is_loopback),
    _property(IP, "isLinkLocalMulticast", BOOL, lambda address: _link_local_multicast(address)),
    _property(IP, "isLinkLocalUnicast", BOOL, lambda address: address.is_link_local),
    _property(IP, "isGlobalUnicast", BOOL, _global_unicast),
    Function("containsIP", "cidr_contains_ip", BOOL, (CIDR, IP), _holds_ip, price=_holding),
    Function("containsIP", "cidr_contains_ip_string", BOOL, (CIDR, STRING), _holds_ip, price=_holding),
    Function("containsCIDR", "cidr_contains_cidr", BOOL, (CIDR, CIDR), _holds_cidr, price=_holding),
    Function("containsCIDR", "cidr_contains_cidr_string", BOOL, (CIDR, STRING), _holds_cidr, price=_holding),
    Function("ip", "cidr_ip", IP, (CIDR,), lambda network: network.ip, price=3),
    Function("masked", "cidr_masked", CIDR, (CIDR,), _masked, price=20),
    _property(CIDR, "prefixLength", INT, lambda network: network.network.prefixlen),
    _property(URL, "getScheme", STRING, lambda url: url.scheme),
    _property(URL, "getHost", STRING, _host),
    _property(
        URL,
        "getHostname",
        STRING,
        lambda url: _host(url).removesuffix(f":{_port(url)}").strip("[]"),
    ),
    _property(URL, "getPort", STRING, _port),
    _property(URL, "getEscapedPath", STRING, lambda url: quote(url.path, safe=_IN_PATH), _of_text),
    _property(URL, "getQuery", QUERY, lambda url: parse_qs(url.query, keep_blank_values=True), _of_text),
)


def _link_local_multicast(address: Address) -> bool:
    if address.version == 4:
        return address in ipaddress.ip_network("224.0.0.0/24")
    return address.packed[0] == 0xFF and address.packed[1] & 0xF == 2  # whatever its flags, as Go

"""`format` of strings, as far as Kubernetes checks it; other names mean nothing."""

import base64
import binascii
import ipaddress
import re
import uuid
from collections.abc import Callable
from datetime import date, datetime
from urllib.parse import urlsplit

LABEL = r"[a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?"
HOSTNAME = re.compile(rf"{LABEL}(\.{LABEL})*\.?", re.ASCII)
DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)", re.ASCII)
DURATION = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h|d|w)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*")
MAC = re.compile(r"[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}")
EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
COLOR = re.compile(r"#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})")
LONGEST = 4096
"""Of a text whose format is checked at all; a longer one is of no format."""


def _reads(read: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _uuid(version: int = 0) -> Callable[[str], bool]:
    def read(text: str) -> None:
        if version and uuid.UUID(text).version != version:
            raise ValueError(text)
        uuid.UUID(text)

    return _reads(read)


def _date_time(text: str) -> bool:
    return bool(DATE_TIME.fullmatch(text)) and _reads(datetime.fromisoformat)(text.upper())


def _uri(text: str) -> bool:
    return _reads(urlsplit)(text) and bool(urlsplit(text).scheme or text.startswith("/"))


CHECKS: dict[str, Callable[[str], bool]] = {
    "byte": _reads(lambda text: base64.b64decode(text, validate=True)),
    "cidr": _reads(lambda text: ipaddress.ip_interface(text) if "/" in text else int("no prefix")),
    "date": _reads(date.fromisoformat),
    "date-time": _date_time,
    "datetime": _date_time,
    "duration": lambda text: text == "0" or bool(DURATION.fullmatch(text)),
    "email": lambda text: bool(EMAIL.fullmatch(text)),
    "hexcolor": lambda text: bool(COLOR.fullmatch(text)),
    "hostname": lambda text: len(text) <= 255 and bool(HOSTNAME.fullmatch(text)),
    "ipv4": _reads(ipaddress.IPv4Address),
    "ipv6": _reads(ipaddress.IPv6Address),
    "mac": lambda text: bool(MAC.fullmatch(text)),
    "uri": _uri,
    "uuid": _uuid(),
    "uuid3": _uuid(3),
    "uuid4": _uuid(4),
    "uuid5": _uuid(5),
}


def fits(name: str, text: str) -> bool:
    check = CHECKS.get(name)
    return check is None or (len(text) <= LONGEST and check(text))

"""`format` of strings, as far as Kubernetes checks it; other names mean nothing. Dashes in a name do not count."""

import ipaddress
import re
import unicodedata
from collections.abc import Callable
from datetime import date

from protocols.kube.names import LABEL, SUBDOMAIN
from protocols.kube.request_uri import uri_fault
from protocols.kube.times import DURATION, UNIT_NS, duration_ns

HOSTNAME = re.compile(
    r"[a-zA-Z0-9](-?[a-zA-Z0-9]{0,62})?|([a-zA-Z0-9]([-a-zA-Z0-9]{0,61}[a-zA-Z0-9])?\.)+[a-zA-Z]{2,63}"
)
DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)(.\d+)?(z|[+-]\d\d:\d\d)", re.ASCII)
WORDY = re.compile(r"(?<!\d)(\d+)\s*([A-Za-zµ]+)", re.ASCII)
SECOND = 10**9
LARGEST_BITS = 1023
"""The most bits of a duration in nanoseconds: a float can hold them."""
SHORT = UNIT_NS | {"hr": 3600 * SECOND, "d": 86400 * SECOND, "w": 7 * 86400 * SECOND, "wk": 7 * 86400 * SECOND}
WORDS = {
    "nano": 1, "micro": 10**3, "milli": 10**6, "sec": SECOND, "min": 60 * SECOND, "hour": 3600 * SECOND,
    "day": 86400 * SECOND, "week": 7 * 86400 * SECOND,
}  # fmt: skip
MAC = re.compile(
    r"[0-9a-f]{2}(?:([:-])[0-9a-f]{2}(?:\1[0-9a-f]{2}){4}(?:(?:\1[0-9a-f]{2}){2}|(?:\1[0-9a-f]{2}){14})?)"
    r"|[0-9a-f]{4}(?:\.[0-9a-f]{4}){2}(?:\.[0-9a-f]{4}|(?:\.[0-9a-f]{4}){7})?",
    re.IGNORECASE | re.ASCII,
)
EMAIL = re.compile(r"[^@\s]+@[^@\s]+")
COLOR = re.compile(r"#?([0-9A-Fa-f]{3}|[0-9A-Fa-f]{6})")
LEVEL = r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
RGB = re.compile(rf"rgb\({LEVEL},{LEVEL},{LEVEL}\)", re.ASCII)
BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
SOCIAL = re.compile(r"\d{3}[- ]?\d\d[- ]?\d{4}", re.ASCII)
BSON = re.compile(r"[0-9a-fA-F]{24}")
CARD = re.compile(
    r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}",
    re.ASCII,
)
ISBN10, ISBN13 = r"\d{9}[\dX]", r"\d{13}"
LONGEST = 4096
"""Longest text whose format is checked; a longer one has no format."""
UNCHECKED = ("password",)
NUMBERS = {"integer": ("int32", "int64"), "number": ("float", "double")}


def _reads(read: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except ValueError:
            return False
        return True

    return check


def _uuid(version: str = "[0-9a-f]", variant: str = "[0-9a-f]") -> Callable[[str], bool]:
    hex_ = "[0-9a-f]"
    form = rf"{hex_}{{8}}-?{hex_}{{4}}-?{version}{hex_}{{3}}-?{variant}{hex_}{{3}}-?{hex_}{{12}}"
    pattern = re.compile(form, re.IGNORECASE | re.ASCII)
    return lambda text: pattern.fullmatch(text) is not None


def is_date(text: str) -> bool:
    """Return True for a full date (`2020-02-29`) of a day that exists, as the format `date` requires; year 0 exists."""
    return bool(DAY.fullmatch(text)) and _reads(date.fromisoformat)(text.replace("0000-", "2000-", 1))


def is_date_time(text: str) -> bool:
    """Return True for an RFC 3339 time; hour, minute and second are bounded, the zone is not."""
    day, *clocks = text.lower().split("t")
    match = CLOCK.fullmatch(clocks[0]) if clocks else None
    return match is not None and is_date(day) and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def is_base64(text: str) -> bool:
    """Return True for padded base64 of the standard alphabet, the format `byte`."""
    return BASE64.fullmatch(text) is not None


is_uuid = _uuid()


def duration_nanos(text: str) -> int:
    """Go's form, or whole numbers with units in words somewhere in the text. Raises ValueError."""
    if DURATION.fullmatch(text):
        nanos = duration_ns(text)
        if nanos.bit_length() > LARGEST_BITS:
            raise ValueError(text)
        return nanos
    parts = [int(number) * nanos for number, unit in WORDY.findall(text) if (nanos := _worded(unit.lower()))]
    if not parts:
        raise ValueError(text)
    return sum(parts)


def _worded(unit: str) -> int:
    """Nanoseconds of one; 0 for no unit."""
    if unit in SHORT:
        return SHORT[unit]
    return next((nanos for word, nanos in WORDS.items() if unit.startswith(word)), 0)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Leading zeros are passed over, as they always were; a zone is not. Raises ValueError."""
    if "%" in text:
        raise ValueError(text)
    return ipaddress.ip_address(re.sub(r"(^|[.:])0+(?=\d+(\.|$))", r"\1", text) if "." in text else text)


def _network(text: str) -> None:
    address, _, prefix = text.partition("/")
    bits = _address(address).max_prefixlen
    if not re.fullmatch(r"\d{1,3}", prefix, re.ASCII) or int(prefix) > bits or (prefix[0] == "0" and prefix != "0"):
        raise ValueError(text)


def _is_hostname(text: str) -> bool:
    """Letters of any script are letters, symbols are as good as digits. A name without dots has one dash at most."""
    if len(text.encode()) > 255 or any(len(part.encode()) > 63 for part in text.split(".")):
        return False
    kinds = [char if char.isascii() and char.isalnum() else unicodedata.category(char)[0] for char in text]
    plain = [
        {"L": "a", "S": "1"}.get(kind, char) if kind != char else char for kind, char in zip(kinds, text, strict=True)
    ]
    return HOSTNAME.fullmatch("".join(plain)) is not None


def _without(dropped: str, pattern: re.Pattern[str]) -> Callable[[str], bool]:
    """Match what is left of a text without these characters."""
    separators = re.compile(dropped)
    return lambda text: pattern.fullmatch(separators.sub("", text)) is not None


CHECKS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": lambda text: bool(BSON.fullmatch(text)),
    "byte": is_base64,
    "cidr": _reads(_network),
    "creditcard": _without(r"[^0-9]+", CARD),
    "date": is_date,
    "datetime": is_date_time,
    "duration": _reads(duration_nanos),
    "email": lambda text: bool(EMAIL.fullmatch(text)),
    "hexcolor": lambda text: bool(COLOR.fullmatch(text)),
    "hostname": _is_hostname,
    "ipv4": lambda text: "." in text and _reads(_address)(text),
    "ipv6": lambda text: ":" in text and _reads(_address)(text),
    "isbn": _without(r"[\s-]+", re.compile(f"{ISBN10}|{ISBN13}", re.ASCII)),
    "isbn10": _without(r"[\s-]+", re.compile(ISBN10, re.ASCII)),
    "isbn13": _without(r"[\s-]+", re.compile(ISBN13, re.ASCII)),
    "k8slongname": lambda text: len(text) <= 253 and bool(SUBDOMAIN.fullmatch(text)),
    "k8sshortname": lambda text: len(text) <= 63 and bool(LABEL.fullmatch(text)),
    "mac": lambda text: bool(MAC.fullmatch(text)),
    "rgbcolor": lambda text: bool(RGB.fullmatch(text)),
    "ssn": lambda text: len(text) == 11 and bool(SOCIAL.fullmatch(text)),
    "uri": lambda text: not uri_fault(text),
    "uuid": is_uuid,
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
}


def fits(name: str, text: str) -> bool:
    """Return True unless the format `name` is one that Kubernetes checks and `text` is not of it."""
    check = CHECKS.get(name.replace("-", ""))
    return check is None or (len(text) <= LONGEST and check(text))


def is_known(name: str, kind: str) -> bool:
    """Return True when values of this type (empty = any) may have a format of this name."""
    if kind in ("", "string"):
        return name.replace("-", "") in (*CHECKS, *UNCHECKED)
    return name in NUMBERS.get(kind, ())

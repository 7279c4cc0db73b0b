"""Everything that is wrong with a name, sentence by sentence as Kubernetes says it; an empty list for a sound one."""

import re

from protocols.kube.name_rules import (
    DNS1035,
    DNS1035_TEXT,
    LABEL,
    LABEL_LIMIT,
    LABEL_TEXT,
    QUALIFIED,
    QUALIFIED_TEXT,
    SUBDOMAIN,
    SUBDOMAIN_LIMIT,
    SUBDOMAIN_TEXT,
    VALUE_TEXT,
)


def label_faults(text: str) -> list[str]:
    faults = _too_long(text, LABEL_LIMIT)
    if LABEL.fullmatch(text):
        return faults
    return [*faults, "must not contain dots" if SUBDOMAIN.fullmatch(text) else LABEL_TEXT]


def subdomain_faults(text: str) -> list[str]:
    return _too_long(text, SUBDOMAIN_LIMIT) + _unlike(text, SUBDOMAIN, SUBDOMAIN_TEXT)


def dns1035_faults(text: str) -> list[str]:
    return _too_long(text, LABEL_LIMIT) + _unlike(text, DNS1035, DNS1035_TEXT)


def label_value_faults(text: str) -> list[str]:
    return _too_long(text, LABEL_LIMIT, "bytes") + (_unlike(text, QUALIFIED, VALUE_TEXT) if text else [])


def qualified_faults(text: str) -> list[str]:
    """`[prefix/]name`."""
    prefix, slash, name = text.partition("/")
    if "/" in name:
        rest = QUALIFIED_TEXT.removeprefix("name part ")
        return [f"a valid label key {rest} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    if not slash:
        prefix, name = "", text
    faults = [f"prefix part {fault}" for fault in _prefix_faults(prefix)] if slash else []
    long = ["must be non-empty"] if not name else _too_long(name, LABEL_LIMIT, "bytes")
    return faults + [f"name part {fault}" for fault in long] + _unlike(name, QUALIFIED, QUALIFIED_TEXT)


def _prefix_faults(prefix: str) -> list[str]:
    if not prefix:
        return ["must be non-empty"]
    return _too_long(prefix, SUBDOMAIN_LIMIT, "bytes") + _unlike(prefix, SUBDOMAIN, SUBDOMAIN_TEXT)


def _too_long(text: str, limit: int, unit: str = "characters") -> list[str]:
    """Upstream counts bytes, and calls them so in keys and values of labels."""
    return [f"must be no more than {limit} {unit}"] if len(text.encode("utf-8", "replace")) > limit else []


def _unlike(text: str, pattern: re.Pattern[str], told: str) -> list[str]:
    return [] if pattern.fullmatch(text) else [told]

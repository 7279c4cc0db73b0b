"""Name rules: each `*_fault` returns the reason for rejecting a value on one line, empty for a valid one."""

import re

LABEL_LIMIT, SUBDOMAIN_LIMIT = 63, 253
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
DNS1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
QUALIFIED = re.compile(r"([a-zA-Z0-9][-a-zA-Z0-9_.]*)?[a-zA-Z0-9]")
SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
DNS1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
QUALIFIED_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def label_faults(text: str) -> list[str]:
    """Return upstream's texts about a name that is no DNS label (RFC 1123)."""
    faults = _too_long(text, LABEL_LIMIT)
    if LABEL.fullmatch(text):
        return faults
    return [*faults, "must not contain dots" if SUBDOMAIN.fullmatch(text) else LABEL_TEXT]


def subdomain_faults(text: str) -> list[str]:
    """Return upstream's texts about a name that is no DNS subdomain (RFC 1123)."""
    return _too_long(text, SUBDOMAIN_LIMIT) + _unlike(text, SUBDOMAIN, SUBDOMAIN_TEXT)


def dns1035_faults(text: str) -> list[str]:
    """Return upstream's texts about a name that is no RFC 1035 label: it must begin with a letter."""
    return _too_long(text, LABEL_LIMIT) + _unlike(text, DNS1035, DNS1035_TEXT)


def label_value_faults(text: str) -> list[str]:
    """Return upstream's texts about a label value; an empty one is valid."""
    return _too_long(text, LABEL_LIMIT, "bytes") + (_unlike(text, QUALIFIED, VALUE_TEXT) if text else [])


def qualified_faults(text: str) -> list[str]:
    """Return upstream's texts about a name that is no `[PREFIX/]NAME`."""
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


def _unlike(text: str, pattern: re.Pattern[str], message: str) -> list[str]:
    return [] if pattern.fullmatch(text) else [message]


def label_fault(value: str) -> str:
    """Check an RFC 1123 label: namespaces, containers, volumes."""
    if len(value) > LABEL_LIMIT:
        return f"must be no more than {LABEL_LIMIT} characters"
    if not LABEL.fullmatch(value):
        return "must be lower case letters, digits and '-', with a letter or digit at both ends (an RFC 1123 label)"
    return ""


def subdomain_fault(value: str) -> str:
    """Check an RFC 1123 subdomain: most object names."""
    if len(value) > SUBDOMAIN_LIMIT:
        return f"must be no more than {SUBDOMAIN_LIMIT} characters"
    if not SUBDOMAIN.fullmatch(value):
        return (
            "must be lower case letters, digits, '-' and '.', with a letter or digit at both ends of each part"
            " (an RFC 1123 subdomain)"
        )
    return ""


def qualified_name_fault(value: str) -> str:
    """Check a `[PREFIX/]NAME`: label keys, annotation keys, resource names, taint keys."""
    prefix, slash, name = value.rpartition("/")
    if slash and (not prefix or "/" in prefix or subdomain_fault(prefix)):
        return "prefix part must be an RFC 1123 subdomain of 1-253 characters"
    if len(name) > LABEL_LIMIT:
        return f"name part must be no more than {LABEL_LIMIT} characters"
    if not QUALIFIED.fullmatch(name):
        return "name part must be letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    return ""


def label_value_fault(value: str) -> str:
    """Check the value of a label; an empty one is valid."""
    if len(value) > LABEL_LIMIT:
        return f"must be no more than {LABEL_LIMIT} characters"
    if value and not QUALIFIED.fullmatch(value):
        return "must be empty, or letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    return ""


def path_segment_faults(value: str) -> list[str]:
    """Check a name that has to be one segment of a URL path: the weakest rule, for leases and alike."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{mark}'" for mark in "/%" if mark in value]

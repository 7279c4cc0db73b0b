"""Name rules: each `*_fault` returns why a value is refused, one line, or an empty string when it is fine."""

import random
import re

from protocols.kube.name_rules import LABEL, LABEL_LIMIT, QUALIFIED, SUBDOMAIN, SUBDOMAIN_LIMIT

GENERATE_LIMIT = 58
"""Characters of generateName that are kept before the suffix."""
SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no look-alikes, so no words appear."""
SUFFIX_LENGTH = 5

_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_C_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def label_fault(value: str) -> str:
    """RFC 1123 label: namespaces, containers, volumes."""
    if len(value) > LABEL_LIMIT:
        return f"must be no more than {LABEL_LIMIT} characters"
    if not LABEL.fullmatch(value):
        return "must be lower case letters, digits and '-', with a letter or digit at both ends (an RFC 1123 label)"
    return ""


def subdomain_fault(value: str) -> str:
    """RFC 1123 subdomain: most object names."""
    if len(value) > SUBDOMAIN_LIMIT:
        return f"must be no more than {SUBDOMAIN_LIMIT} characters"
    if not SUBDOMAIN.fullmatch(value):
        return (
            "must be lower case letters, digits, '-' and '.', with a letter or digit at both ends of each part"
            " (an RFC 1123 subdomain)"
        )
    return ""


def qualified_name_fault(value: str) -> str:
    """`[prefix/]name`: label keys, annotation keys, resource names, taint keys."""
    prefix, slash, name = value.rpartition("/")
    if slash and (not prefix or "/" in prefix or subdomain_fault(prefix)):
        return "prefix part must be an RFC 1123 subdomain of 1-253 characters"
    if len(name) > LABEL_LIMIT:
        return f"name part must be no more than {LABEL_LIMIT} characters"
    if not QUALIFIED.fullmatch(name):
        return "name part must be letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    return ""


def label_value_fault(value: str) -> str:
    """Value of a label; empty is fine."""
    if len(value) > LABEL_LIMIT:
        return f"must be no more than {LABEL_LIMIT} characters"
    if value and not QUALIFIED.fullmatch(value):
        return "must be empty, or letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    return ""


def config_key_fault(value: str) -> str:
    """Key of a ConfigMap or Secret."""
    if len(value) > SUBDOMAIN_LIMIT:
        return f"must be no more than {SUBDOMAIN_LIMIT} characters"
    if value in (".", "..") or value.startswith("..") or not _CONFIG_KEY.fullmatch(value):
        return "must be letters, digits, '-', '_' and '.', and must not start with '..'"
    return ""


def c_identifier_fault(value: str) -> str:
    """Attribute and driver-local identifiers of resource.k8s.io."""
    if not _C_IDENTIFIER.fullmatch(value):
        return "must be letters, digits and '_', and must not start with a digit (a C identifier)"
    return ""


def path_segment_fault(value: str) -> str:
    """What may stand as one segment of a URL path: the weakest rule, for leases and alike."""
    if value in (".", ".."):
        return "must not be '.' or '..'"
    if "/" in value or "%" in value:
        return "must not contain '/' or '%'"
    return ""


def generated_name(base: str, chooser: random.Random | None = None) -> str:
    """`base` cut to 58 characters and 5 random ones; `chooser` makes it repeatable in tests."""
    pick = chooser or random
    return base[:GENERATE_LIMIT] + "".join(pick.choice(SUFFIX_ALPHABET) for _ in range(SUFFIX_LENGTH))

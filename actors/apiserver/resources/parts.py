"""Rules of parts that several kinds have: label selectors, node selectors, tolerations, addresses.

Paths and reasons are upstream's.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Any

from actors.apiserver.api.causes import Cause, duplicate, forbidden, invalid, required, unsupported
from actors.apiserver.api.objects import items
from protocols.kube.meta import Object
from protocols.kube.names import label_value_faults, qualified_faults

IN, EXISTS, COMPARED = ("In", "NotIn"), ("Exists", "DoesNotExist"), ("Gt", "Lt")
NO_OPERATOR = "not a valid selector operator"
PROTOCOLS = ("SCTP", "TCP", "UDP")
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NOT_AN_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
MATCHES_ALL = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def label_causes(path: str, labels: Any) -> list[Cause]:
    """Validate a map of labels."""
    causes = []
    for key, value in (labels or {}).items():
        causes += [invalid(path, key, fault) for fault in qualified_faults(key)]
        causes += [invalid(path, value, fault) for fault in label_value_faults(value)]
    return causes


def selector_causes(path: str, selector: Object) -> list[Cause]:
    """Validate a LabelSelector."""
    causes = label_causes(f"{path}.matchLabels", selector.get("matchLabels"))
    for index, each in enumerate(items(selector, "matchExpressions")):
        causes += _expression_causes(f"{path}.matchExpressions[{index}]", each)
    return causes


def node_selector_causes(path: str, selector: Object) -> list[Cause]:
    terms = items(selector, "nodeSelectorTerms")
    if not terms:
        return [required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")]
    causes = []
    for number, term in enumerate(terms):
        where = f"{path}.nodeSelectorTerms[{number}]"
        for index, each in enumerate(items(term, "matchExpressions")):
            causes += _expression_causes(f"{where}.matchExpressions[{index}]", each, COMPARED)
    return causes


def _expression_causes(path: str, expression: Object, compared: tuple[str, ...] = ()) -> list[Cause]:
    operator, key, values = expression.get("operator"), expression.get("key") or "", expression.get("values") or []
    causes = []
    if operator in IN and not values:
        causes.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in EXISTS and values:
        causes.append(forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
    elif operator in compared and len(values) != 1:
        causes.append(required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    elif operator not in (*IN, *EXISTS, *compared):
        causes.append(invalid(f"{path}.operator", operator or "", NO_OPERATOR))
    causes += [invalid(f"{path}.key", key, fault) for fault in qualified_faults(key)]
    for index, value in enumerate(values):
        causes += [invalid(f"{path}.values[{index}]", value, fault) for fault in label_value_faults(value)]
    return causes


def tolerations_causes(path: str, tolerations: Iterable[Object]) -> list[Cause]:
    return [cause for at, each in enumerate(tolerations) for cause in _toleration_causes(f"{path}[{at}]", each)]


def _toleration_causes(path: str, held: Object) -> list[Cause]:
    key, operator, value = held.get("key") or "", held.get("operator") or "", held.get("value") or ""
    effect = held.get("effect") or ""
    causes = [invalid(f"{path}.key", key, fault) for fault in qualified_faults(key)] if key else []
    if not key and operator != "Exists":
        causes.append(invalid(f"{path}.operator", operator, MATCHES_ALL))
    if held.get("tolerationSeconds") is not None and effect != "NoExecute":
        causes.append(invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
    if operator in ("", "Equal"):
        causes += [invalid(f"{path}.operator", value, fault) for fault in label_value_faults(value)]
    elif operator == "Exists" and value:
        causes.append(invalid(f"{path}.operator", held, "value must be empty when `operator` is 'Exists'"))
    elif operator != "Exists":
        causes.append(unsupported(f"{path}.operator", operator, ("Equal", "Exists")))
    return causes if not effect or effect in TAINT_EFFECTS else [*causes, _effect(path, effect)]


def _effect(path: str, effect: str) -> Cause:
    return unsupported(f"{path}.effect", effect, TAINT_EFFECTS)


def ip_causes(path: str, text: str, family: int = 0) -> list[Cause]:
    """Validate an address of an endpoint, of one `family` if it is 4 or 6."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return [invalid(path, text, NOT_AN_IP)]
    if family and address.version != family:
        return [invalid(path, text, f"must be a valid IPv{family} address")]
    return [invalid(path, text, fault) for fault in special_faults(address)]


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


def repeated_causes(path: str, values: Sequence[Any], field: str = "") -> list[Cause]:
    """Report each value that an earlier element has, too."""
    suffix = f".{field}" if field else ""
    return [duplicate(f"{path}[{at}]{suffix}", value) for at, value in enumerate(values) if value in values[:at]]


def changed_causes(new: Object, old: Object, *fields: str) -> list[Cause]:
    """Report the fields that a write may not change."""
    return [
        invalid(field, new.get(field), "field is immutable") for field in fields if new.get(field) != old.get(field)
    ]

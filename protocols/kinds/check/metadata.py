"""Metadata of templates, and conditions. Messages equal upstream's."""

import re

from protocols.kinds.check.causes import forbidden, invalid, required, too_long, unsupported
from protocols.kinds.check.table import Causes, Struct, once
from protocols.kinds.check.values import label_key, labels
from protocols.kube.meta import Object

FREE = ("labels", "annotations")
"""Metadata that a template may have. The others are reported in the spelling of upstream's path."""
SPELLED = {"uid": "uID"}


def _nothing_else(path: str, value: Object, causes: Causes) -> None:
    for field, part in value.items():
        if field not in FREE and part:
            causes.append(forbidden(f"{path}.{SPELLED.get(field, field)}", "cannot be set"))


def annotations(path: str, value: Object, causes: Causes) -> None:
    """Check the keys of annotations; upper case is allowed in them."""
    for key in value:
        label_key(path, key.lower(), causes)


template_metadata = Struct(also=_nothing_else, labels=labels, annotations=annotations)

STATUSES = ("False", "True", "Unknown")
REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
REASON_TEXT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    "'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is "
    "'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')"
)
LONGEST_REASON, LONGEST_MESSAGE = 1024, 32768


def condition(path: str, value: Object, causes: Causes) -> None:
    """Check a metav1.Condition."""
    status, reason = value.get("status") or "", value.get("reason") or ""
    label_key(f"{path}.type", value.get("type") or "", causes)
    if status not in STATUSES:
        causes.append(unsupported(f"{path}.status", status, STATUSES))
    if (generation := value.get("observedGeneration") or 0) < 0:
        causes.append(invalid(f"{path}.observedGeneration", generation, "must be greater than or equal to zero"))
    if not value.get("lastTransitionTime"):
        causes.append(required(f"{path}.lastTransitionTime"))
    if not reason:
        causes.append(required(f"{path}.reason"))
    elif len(reason) > LONGEST_REASON:
        causes.append(too_long(f"{path}.reason", LONGEST_REASON))
    elif not REASON.fullmatch(reason):
        causes.append(invalid(f"{path}.reason", reason, REASON_TEXT))
    if len(value.get("message") or "") > LONGEST_MESSAGE:
        causes.append(too_long(f"{path}.message", LONGEST_MESSAGE))


def conditions(path: str, values: list[Object], causes: Causes) -> None:
    """Check a list of conditions; each type may occur once."""
    is_new = once()
    for index, value in enumerate(values):
        condition(f"{path}[{index}]", value, causes)
        is_new(f"{path}[{index}].type", value.get("type") or "", causes)

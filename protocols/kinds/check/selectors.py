"""Selectors of labels and nodes, and tolerations."""

from protocols.kinds.check.causes import forbidden, invalid, required
from protocols.kinds.check.causes import unsupported as unsupported_cause
from protocols.kinds.check.table import Causes, Check, Struct, each, one_of
from protocols.kinds.check.values import label_key, label_value, labels, node_name
from protocols.kube.meta import Object

NO_OPERATOR = "not a valid selector operator"
SOME = "must be specified when `operator` is 'In' or 'NotIn'"
NONE = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
SINGLE = "must be specified single value when `operator` is 'Lt' or 'Gt'"
ONE_NAME = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"


def _requirement(operators: tuple[str, ...], *, values: bool) -> Check:
    """Return the check of a requirement; it checks the texts of `values`, too, if the selector is a strict one."""

    def check(path: str, value: Object, causes: Causes) -> None:
        operator, wanted = value.get("operator") or "", value.get("values") or []
        if operator not in operators:
            causes.append(invalid(f"{path}.operator", operator, NO_OPERATOR))
        elif operator in ("In", "NotIn"):
            if not wanted:
                causes.append(required(f"{path}.values", SOME))
        elif operator in ("Gt", "Lt"):
            if len(wanted) != 1:
                causes.append(required(f"{path}.values", SINGLE))
        elif wanted:
            causes.append(forbidden(f"{path}.values", NONE))
        label_key(f"{path}.key", value.get("key") or "", causes)
        if values:
            for index, text in enumerate(wanted):
                label_value(f"{path}.values[{index}]", text, causes)

    return check


SETS = ("In", "NotIn", "Exists", "DoesNotExist")
label_selector = Struct(matchLabels=labels, matchExpressions=each(_requirement(SETS, values=True)))


def _field(path: str, value: Object, causes: Causes) -> None:
    """Check a requirement of a node's field: its name is the only one."""
    key, operator, wanted = value.get("key") or "", value.get("operator") or "", value.get("values") or []
    if operator not in ("In", "NotIn"):
        causes.append(invalid(f"{path}.operator", operator, NO_OPERATOR))
    elif len(wanted) != 1:
        causes.append(required(f"{path}.values", ONE_NAME))
    if key != "metadata.name":
        causes.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return
    for index, name in enumerate(wanted):
        node_name(f"{path}.values[{index}]", name, causes)


COMPARISONS = (*SETS, "Gt", "Lt")
preferred_node_term = Struct(
    matchExpressions=each(_requirement(COMPARISONS, values=False)),
    matchFields=each(_field),
)
node_term = Struct(
    matchExpressions=each(_requirement(COMPARISONS, values=True)),
    matchFields=each(_field),
)


def node_selector(path: str, value: Object, causes: Causes) -> None:
    """Check a NodeSelector, which needs a term: one without terms selects nothing."""
    terms = value.get("nodeSelectorTerms")
    if not terms:
        causes.append(required(f"{path}.nodeSelectorTerms", "must have at least one node selector term"))
        return
    for index, term in enumerate(terms):
        node_term(f"{path}.nodeSelectorTerms[{index}]", term, causes)


EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
ALL_KEYS = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
_effect = one_of(*EFFECTS)


def toleration(path: str, value: Object, causes: Causes) -> None:
    """Check a toleration of a pod or a RuntimeClass."""
    key, operator, given = value.get("key") or "", value.get("operator") or "", value.get("value") or ""
    if key:
        label_key(f"{path}.key", key, causes)
    elif operator != "Exists":
        causes.append(invalid(f"{path}.operator", operator, ALL_KEYS))
    if value.get("tolerationSeconds") is not None and value.get("effect") != "NoExecute":
        text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        causes.append(invalid(f"{path}.effect", value.get("effect") or "", text))
    if operator in ("", "Equal"):
        label_value(f"{path}.operator", given, causes)
    elif operator == "Exists":
        if given:
            causes.append(invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'"))
    else:
        causes.append(unsupported_cause(f"{path}.operator", operator, ("Equal", "Exists")))
    _effect(f"{path}.effect", value.get("effect") or "", causes)

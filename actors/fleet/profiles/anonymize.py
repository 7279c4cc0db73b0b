"""Replace what identifies the owner of a cluster in nodes and ResourceSlices (owner_names.py has the rules). Pure.

An id that is on one node alone gets that node's new name and a number, so that nodes that differ in ids alone become
alike. Of devices of a driver outside well-known domains all names and texts are replaced.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from actors.fleet.profiles.owner_names import OwnerNames, domain_of, is_id, is_well_known
from protocols.kinds import views
from protocols.kube.meta import Object, labels_of, name_of
from protocols.kube.resource_names import is_extended
from protocols.kube.taints import node_taints

NUMERIC = ("Gt", "Lt")
"""Operators of a node selector whose values are numbers."""
VERSION_END = re.compile("[-+]")
"""Begin of the words of a version, after its numbers."""


def anonymized(
    nodes: Sequence[views.Node], slices: Iterable[views.ResourceSlice]
) -> tuple[list[views.Node], list[views.ResourceSlice]]:
    """Return copies without names and ids of the owner; the same names are replaced alike everywhere."""
    specs = sorted((obj["spec"] for obj in slices), key=_order)
    names = OwnerNames(map(name_of, nodes), set(_domains(nodes, specs)))
    for value, node in _label_homes(nodes).items():
        if node:
            names.add_own_value(node, value)
    homes = _homes(specs)
    renamed = [_SliceNames(names, homes, spec).renamed() for spec in specs]
    return [_node(node, names) for node in nodes], [{"spec": spec} for spec in renamed]


def _order(spec: views.ResourceSliceSpec) -> tuple[str, str, bool, str]:
    """Order slices by what they hold, as the API's order depends on random names."""
    devices = spec.get("devices") or ()
    return spec["driver"], spec["pool"]["name"], not devices, devices[0]["name"] if devices else ""


def _domains(nodes: Iterable[views.Node], specs: Iterable[views.ResourceSliceSpec]) -> Iterator[str]:
    for node in nodes:
        capacity: Mapping[str, str] = (node.get("status") or {}).get("capacity") or {}
        yield from map(domain_of, labels_of(node))
        yield from map(domain_of, capacity)
        yield from (domain_of(taint.key) for taint in node_taints(node))
    for spec in specs:
        yield spec["driver"]
        for device in spec.get("devices") or ():
            yield from map(domain_of, device.get("attributes") or ())
            yield from map(domain_of, device.get("capacity") or ())


def _homes(specs: Iterable[views.ResourceSliceSpec]) -> dict[str, str]:
    """Return the node of each text in attributes, "" for those of several nodes or of none."""
    node_by_text: dict[str, str] = {}
    for spec in specs:
        node = spec.get("nodeName") or ""
        for device in spec.get("devices") or ():
            for value in (device.get("attributes") or {}).values():
                if text := value.get("string"):
                    node_by_text[text] = node if node_by_text.get(text, node) == node else ""
    return node_by_text


def _label_homes(nodes: Iterable[views.Node]) -> dict[str, str]:
    """Return the node of each value of a label, "" for those of several nodes."""
    node_by_value: dict[str, str] = {}
    for node in nodes:
        name = name_of(node)
        for value in labels_of(node).values():
            node_by_value[value] = name if node_by_value.get(value, name) == name else ""
    return node_by_value


def _node(node: views.Node, names: OwnerNames) -> views.Node:
    status: Mapping[str, Any] = node.get("status") or {}
    taints = [
        {
            "key": names.key("label", taint.key),
            "value": names.label_value(taint.key, taint.value),
            "effect": taint.effect,
        }
        for taint in node_taints(node)
    ]
    labels = {names.key("label", key): names.label_value(key, value) for key, value in labels_of(node).items()}
    fields: Object = {
        "metadata": {"name": names.nodes[name_of(node)], "labels": labels},
        "spec": {"taints": taints},
        "status": {field: _quantities(status.get(field) or {}, names) for field in ("capacity", "allocatable")},
    }
    return fields  # type: ignore[return-value]


def _quantities(found: Mapping[str, str], names: OwnerNames) -> dict[str, str]:
    return {names.key("resource", name) if is_extended(name) else name: value for name, value in found.items()}


class _SliceNames:
    """Rename what a slice holds."""

    def __init__(self, names: OwnerNames, homes: Mapping[str, str], spec: views.ResourceSliceSpec) -> None:
        self._names, self._homes, self._spec = names, homes, spec
        self._pool = f"{spec['driver']} {spec['pool']['name']}"
        self._node = names.nodes.get(spec.get("nodeName") or "", "")
        self._is_known = is_well_known(spec["driver"])

    def renamed(self) -> views.ResourceSliceSpec:
        spec = self._spec
        new_spec: Object = {
            **self._placed(spec),
            "driver": self._names.domain(spec["driver"]),
            "pool": {**spec["pool"], "name": self._pool_name(spec["pool"]["name"])},
            "devices": [self._device(device) for device in spec.get("devices") or ()],
            "sharedCounters": [self._use(counter, "name") for counter in spec.get("sharedCounters") or ()],
        }
        return new_spec  # type: ignore[return-value]

    def _pool_name(self, pool: str) -> str:
        if known := self._names.nodes.get(pool):
            return known
        return self._names.replacement(f"{self._node}/pool" if self._node else "pool", pool)

    def _placed(self, holder: Mapping[str, Any]) -> Object:
        """Return the fields of a slice or device that select nodes."""
        fields = {name: holder[name] for name in ("allNodes", "perDeviceNodeSelection") if holder.get(name)}
        if node := holder.get("nodeName"):
            fields["nodeName"] = self._names.nodes.get(node) or self._names.replacement("unknown-node", node)
        if selector := holder.get("nodeSelector"):
            fields["nodeSelector"] = {"nodeSelectorTerms": [self._term(term) for term in selector["nodeSelectorTerms"]]}
        return fields

    def _term(self, term: Mapping[str, Any]) -> Object:
        fields = ("matchExpressions", "matchFields")
        return {
            field: [self._requirement(requirement, field) for requirement in term[field]]
            for field in fields
            if term.get(field)
        }

    def _requirement(self, found: Mapping[str, Any], field: str) -> Object:
        key, values = found["key"], found.get("values") or []
        if found["operator"] not in NUMERIC:
            values = [self._names.label_value(key, value) for value in values]
        return {**found, "key": self._names.key("label", key) if field == "matchExpressions" else key, "values": values}

    def _device(self, device: Mapping[str, Any]) -> Object:
        attributes: Mapping[str, Any] = device.get("attributes") or {}
        conditions = ("bindingConditions", "bindingFailureConditions")
        return {
            "name": self._word("device", device["name"]),
            "attributes": {self._qualified(name): self._attribute(name, value) for name, value in attributes.items()},
            "capacity": {self._qualified(name): value for name, value in (device.get("capacity") or {}).items()},
            "consumesCounters": [self._use(counter, "counterSet") for counter in device.get("consumesCounters") or ()],
            "taints": [self._taint(taint) for taint in device.get("taints") or ()],
            **{name: device[name] for name in ("allowMultipleAllocations", "bindsToNode") if name in device},
            **{
                name: [self._names.key("condition", condition) for condition in device.get(name) or ()]
                for name in conditions
            },
            **self._placed(device),
        }

    def _use(self, found: Mapping[str, Any], field: str) -> Object:
        """Rename a counter set, or the use of one."""
        counters = {self._counter(name): value for name, value in found["counters"].items()}
        return {field: self._word("set", found[field]), "counters": counters}

    def _counter(self, name: str) -> str:
        return self._names.replacement("counter", name) if self._names.has_owner(name) else name

    def _taint(self, found: Mapping[str, Any]) -> Object:
        value = self._names.label_value(found["key"], found.get("value") or "")
        return {**found, "key": self._names.key("label", found["key"]), "value": value}

    def _word(self, kind: str, text: str) -> str:
        """Return the name of a device or counter set, which is one in its pool."""
        is_kept = self._is_known and not is_id(text) and not self._names.has_owner(text)
        return text if is_kept else self._names.replacement(kind, text, self._pool)

    def _qualified(self, name: str) -> str:
        """Return the name of an attribute or capacity, whose second part is an identifier of C."""
        domain, slash, own = name.rpartition("/")
        if self._names.has_owner(own):
            own = self._names.replacement("name", own).replace("-", "_")
        return f"{self._names.domain(domain)}/{own}" if slash else own

    def _attribute(self, name: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
        if "int" in value and is_id("", name):
            number = self._names.replacement("number", str(value["int"]), self._node)
            return {"int": int(number.rpartition("-")[2])}
        text = value.get("string") or value.get("version")
        if not text:
            return value
        is_kept = is_well_known(domain_of(name) or self._spec["driver"])
        if is_kept and not is_id(text, name) and not self._names.has_owner(text):
            return value
        if "version" in value:
            return {"version": VERSION_END.split(text, maxsplit=1)[0]}
        return {"string": self._names.nodes.get(text) or self._replaced(text)}

    def _replaced(self, text: str) -> str:
        if self._node and self._homes[text]:
            return self._names.replacement(f"{self._node}-id", text)
        return self._names.replacement("value", text)

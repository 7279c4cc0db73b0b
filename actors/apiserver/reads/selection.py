"""Which objects a request wants: label and field selectors, compiled once and shared."""

import functools
from collections.abc import Callable, Mapping

from actors.apiserver.catalog.resource import Resource
from actors.apiserver.errors.answers import BadRequest
from actors.apiserver.objects.paths import Obj, at
from actors.apiserver.replica.stored import Stored
from protocols.kube.errors import SelectorInvalid
from protocols.kube.selectors import FieldTerm, parse_field_selector, parse_label_selector


class Selection:
    """A compiled pair of selectors. Missing fields compare as empty text."""

    def __init__(self, resource: Resource, labels: str, fields: str) -> None:
        self.labels, self.fields = labels, fields
        self._labels = _label_matcher(labels) if labels.strip() else None
        self.terms = _field_terms(resource, fields) if fields.strip() else ()
        self.equals = tuple((term.field, term.value) for term in self.terms if term.equal)
        """The equality terms: authorization and indexes look at them."""
        self.name = next((value for path, value in self.equals if path == "metadata.name"), "")
        """The one name asked for, empty if any."""
        self._view = resource.face.view
        self._fields = tuple((_getter(resource, term.field), term.equal, term.value) for term in self.terms)

    @property
    def everything(self) -> bool:
        return self._labels is None and not self._fields

    def matches(self, stored: Stored) -> bool:
        if self._labels is not None and not self._labels(stored.labels):
            return False
        return not self._fields or self._fields_match(self._view(stored).obj)

    def matches_object(self, obj: Obj) -> bool:
        if self._labels is not None and not self._labels(at(obj, "metadata", "labels") or {}):
            return False
        return self._fields_match(obj)

    def _fields_match(self, obj: Obj) -> bool:
        return all((get(obj) == value) is equal for get, equal, value in self._fields)


@functools.lru_cache(maxsize=1024)
def selection(resource: Resource, labels: str, fields: str) -> Selection:
    """The compiled selectors; raises BadRequest."""
    return Selection(resource, labels, fields)


def _label_matcher(text: str) -> Callable[[Mapping[str, str]], bool]:
    try:
        return parse_label_selector(text).matches
    except SelectorInvalid as error:
        raise BadRequest(f"unable to parse requirement: {error}") from None


def _field_terms(resource: Resource, text: str) -> tuple[FieldTerm, ...]:
    try:
        terms = parse_field_selector(text).terms
    except SelectorInvalid as error:
        raise BadRequest(str(error)) from None
    for term in terms:
        _getter(resource, term.field)
    return terms


def _getter(resource: Resource, path: str) -> Callable[[Obj], str]:
    if path == "metadata.name":
        return lambda obj: str(at(obj, "metadata", "name") or "")
    if path == "metadata.namespace" and resource.namespaced:
        return lambda obj: str(at(obj, "metadata", "namespace") or "")
    found = resource.fields.get(path)
    if found is None:
        where = f" for {resource.api_version}, Kind={resource.kind}" if resource.kind == "ResourceSlice" else ""
        raise BadRequest(f"field label not supported{where}: {path}")
    return found

"""Selections: compiled label and field selectors, shared by requests that repeat them."""

import functools
from collections.abc import Callable, Iterable, Mapping

from actors.apiserver.api.errors import BadRequest
from actors.apiserver.api.stored import Stored, view
from protocols.kinds.served.row import Served
from protocols.kube.errors import SelectorInvalid
from protocols.kube.meta import Object
from protocols.kube.objects import at
from protocols.kube.selectors import FieldTerm, parse_field_selector, parse_label_selector

SHORT = 1024
"""Characters of selectors whose compiled form is retained: what clients repeat is short, and memory is bounded."""


class Selection:
    """A compiled pair of selectors. Missing fields compare as empty text."""

    def __init__(self, resource: Served, labels: str, fields: str) -> None:
        self.labels, self.fields = labels, fields
        self._labels = _label_matcher(labels) if labels.strip() else None
        self.terms = _field_terms(resource, fields) if fields.strip() else ()
        self.equals = tuple((term.field, term.value) for term in self.terms if term.equal)
        """Equality terms, for authorization and indexes."""
        self.name = selected_name(self.equals)
        """The selected name; empty if any."""
        self._resource = resource
        self._fields = _field_tests(resource, self.terms)

    @property
    def everything(self) -> bool:
        return self._labels is None and not self._fields

    def matches(self, stored: Stored) -> bool:
        if self._labels is not None and not self._labels(stored.labels):
            return False
        return not self._fields or self._fields_match(view(self._resource, stored).obj)

    def matches_object(self, obj: Object) -> bool:
        if self._labels is not None and not self._labels(at(obj, "metadata", "labels") or {}):
            return False
        return self._fields_match(obj)

    def _fields_match(self, obj: Object) -> bool:
        return all(test(obj) for test in self._fields)


def selection(resource: Served, labels: str, fields: str) -> Selection:
    """Return the compiled selectors. Raises BadRequest."""
    short = len(labels) + len(fields) <= SHORT
    return _shared(resource, labels, fields) if short else Selection(resource, labels, fields)


@functools.lru_cache(maxsize=1024)
def _shared(resource: Served, labels: str, fields: str) -> Selection:
    return Selection(resource, labels, fields)


def equalities(fields: str) -> tuple[tuple[str, str], ...]:
    """Return the equality terms of a field selector for authorization.

    An invalid selector has none: its error is reported only to clients that are authorized.
    """
    try:
        return tuple((term.field, term.value) for term in parse_field_selector(fields).terms if term.equal)
    except SelectorInvalid:
        return ()


def selected_name(terms: Iterable[tuple[str, str]]) -> str:
    """Return the name that equality terms select; empty if any."""
    return next((value for field, value in terms if field == "metadata.name"), "")


def _label_matcher(text: str) -> Callable[[Mapping[str, str]], bool]:
    try:
        return parse_label_selector(text).matcher()
    except SelectorInvalid as error:
        raise BadRequest(f"unable to parse requirement: {error}") from None


def _field_terms(resource: Served, text: str) -> tuple[FieldTerm, ...]:
    try:
        terms = parse_field_selector(text).terms
    except SelectorInvalid as error:
        raise BadRequest(str(error)) from None
    for term in terms:
        _getter(resource, term.field)
    return terms


def _field_tests(resource: Served, terms: tuple[FieldTerm, ...]) -> tuple[Callable[[Object], bool], ...]:
    """Return one test for each field, however many terms it has."""
    fields = dict.fromkeys(term.field for term in terms)
    return tuple(_field_test(_getter(resource, field), [t for t in terms if t.field == field]) for field in fields)


def _field_test(get: Callable[[Object], str], terms: list[FieldTerm]) -> Callable[[Object], bool]:
    wanted = {term.value for term in terms if term.equal}
    banned = {term.value for term in terms if not term.equal}

    def test(obj: Object) -> bool:
        value = get(obj)
        return value not in banned and (not wanted or {value} == wanted)

    return test


def _getter(resource: Served, path: str) -> Callable[[Object], str]:
    if path == "metadata.name":
        return lambda obj: str(at(obj, "metadata", "name") or "")
    usual = not resource.fields and not resource.custom
    if path == "metadata.namespace" and (resource.namespaced or usual):
        return lambda obj: str(at(obj, "metadata", "namespace") or "")
    getter = resource.fields.get(path)
    if getter is None:
        raise BadRequest(_unknown_field(resource, path, usual))
    return getter


def _unknown_field(resource: Served, path: str, usual: bool) -> str:
    """Return upstream's text; its `usual` kinds have no fields of their own."""
    if usual:
        return f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    if resource.full_name == "jobs.batch":
        return f'field label "{path}" not supported for batchv1.Job'
    where = f" for {resource.api_version}, Kind={resource.kind}" if resource.kind == "ResourceSlice" else ""
    return f"field label not supported{where}: {path}"

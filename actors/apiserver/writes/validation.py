"""Field validation of a request (fieldValidation): errors and warnings about unknown and duplicate fields."""

import functools
import json
from collections.abc import Callable
from itertools import islice
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from actors.apiserver.api.encoding.decode import JSON_TYPES, YAML_TYPES, read_yaml_body
from actors.apiserver.api.errors import BadRequest, Invalid, invalid_object
from actors.apiserver.api.request.target import Target
from protocols.kinds.check.causes import invalid
from protocols.kinds.served.row import Served
from protocols.kinds.shapes.clean import Path, WrongType, clean, clean_field, complete, shown
from protocols.kinds.shapes.registry import kind_shape
from protocols.kube.errors import StatusError
from protocols.kube.meta import Object

LONGEST_SHOWN = 4096
"""Characters of the path of a duplicate field."""
MAX_DUPLICATES = 100
"""Duplicate fields of one body that are reported."""
_encode = msgspec.json.Encoder().encode


def is_json(raw: bytes) -> bool:
    """Return True if a body with YAML's media type is JSON, as kubectl's is."""
    if raw.lstrip()[:1] != b"{":
        return False
    try:
        msgspec.json.decode(raw, type=msgspec.Raw)
    except msgspec.DecodeError:
        return False
    return True


def duplicates(raw: bytes, decoded: Any, thorough: bool) -> list[str]:
    """Return the paths of duplicate keys in valid JSON.

    A body that equals its own re-encoding has none. Unless `thorough`, a body of the same length without white space
    counts as clean, too: a duplicate makes it longer, and only unusual numbers or escapes could hide that.
    """
    again = _encode(decoded)
    if again == raw or (not thorough and len(again) == len(msgspec.json.format(raw, indent=-1))):
        return []
    try:
        marked = json.loads(raw, object_pairs_hook=_All, parse_int=_unread, parse_float=_unread)
    except RecursionError:
        return []
    paths: list[str] = []
    _collect(marked, (), paths)
    return paths[:MAX_DUPLICATES]


def _unread(text: str) -> None:
    """Skip a number: its value does not matter here, and some take long to parse."""


class _All(list[tuple[str, Any]]):
    """An object with all its fields, repeated ones included."""


def _collect(value: Any, path: Path, paths: list[str]) -> None:
    """Find repeated keys. Only their paths become texts: one for each field takes breadth times length of the keys."""
    if len(paths) >= MAX_DUPLICATES or not isinstance(value, list):
        return
    parts = dict(value) if isinstance(value, _All) else dict(enumerate(value))
    if len(parts) != len(value):
        seen = set[str]()
        repeated = dict.fromkeys(key for key, _ in value if key in seen or seen.add(key))  # type: ignore[func-returns-value]  # add is None
        paths += [shown((path, key))[:LONGEST_SHOWN] for key in islice(repeated, MAX_DUPLICATES)]
    for key, part in parts.items():
        _collect(part, (path, key), paths)


def in_order(raw: bytes, warnings: list[str]) -> list[str]:
    """Return warnings about fields of a JSON body in the order in which these stand there, as Go's decoder does."""
    try:
        document = json.loads(raw, object_pairs_hook=_All, parse_int=_unread, parse_float=_unread)
    except (RecursionError, ValueError):
        return warnings
    places: dict[str, int] = {}
    _number(document, "", places)
    return sorted(warnings, key=lambda warning: places.get(warning, len(places)))


def _number(value: Any, path: str, places: dict[str, int]) -> None:
    """Number the warnings that each field may lead to, where it stands first and where it stands again."""
    if isinstance(value, _All):
        seen = set()
        for key, part in value:
            here = f"{path}.{key}".removeprefix(".")
            kind = "duplicate" if key in seen else "unknown"
            seen.add(key)
            places.setdefault(f'{kind} field "{here}"', len(places))
            _number(part, here, places)
    elif isinstance(value, list):
        for index, part in enumerate(value):
            _number(part, f"{path}[{index}]", places)


IGNORE, WARN, STRICT = "Ignore", "Warn", "Strict"
ORDERED_BYTES = 32 * 1024
"""Longest body whose warnings are sorted: the work grows with depth times breadth."""
APPLY_PATCH = "application/apply-patch+yaml"
SHOWN_PATCH = 4096


class Review:
    """The field validation of one request. Its response carries `warnings`. Every mode removes unknown fields.

    As a context manager it adds the warnings to an error, too. In strict mode they are errors themselves.
    """

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._of_text: list[str] = []
        self.duplicates: list[str] = []
        """Warnings in every mode, about what is repeated."""
        self._json = b""
        """The body, if its fields have an order: patches and YAML are brought into that of their names."""
        self._of_fields: dict[str, None] = {}
        """Ordered and unique. Retained over the attempts of a write: a cleaned part has nothing left to report."""

    @property
    def warnings(self) -> list[str]:
        if 0 < len(self._json) <= ORDERED_BYTES and len(self._of_text) + len(self._of_fields) > 1:
            return [*in_order(self._json, [*self._of_text, *self._of_fields]), *self.duplicates]
        return [*self._of_text, *sorted(self._of_fields), *self.duplicates]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(fault, StatusError):
            fault.warnings = self.warnings if self._mode == WARN else ()

    def text(self, raw: bytes, media: str, decoded: Any) -> None:
        """Report duplicate keys of the body."""
        if self._mode == IGNORE:
            return
        if media in JSON_TYPES or (_is_yaml(media) and media != APPLY_PATCH and is_json(raw)):
            self._json = raw
        if media in JSON_TYPES or media.endswith("+json") or (_is_yaml(media) and is_json(raw)):
            paths = duplicates(raw, decoded, thorough=self._mode == STRICT)
            self._of_text = [f'duplicate field "{path}"' for path in paths]
        elif _is_yaml(media):
            repeated = read_yaml_body(raw).repeated
            self._of_text = ["yaml: unmarshal errors:\n  " + "\n  ".join(repeated)] if repeated else []

    def body(self, obj: Object, sent: "BodyKind") -> None:
        """Clean a whole object, unless it is of another kind. Raises BadRequest."""
        if sent.clean is None or not sent.is_of(obj):
            return
        try:
            if unknown := sent.clean(obj):
                self._note(unknown)
        except WrongType as error:
            raise _bad_body(sent, str(error)) from None
        if self._mode == STRICT and self.warnings:
            raise _bad_body(sent, f"strict decoding error: {', '.join(self.warnings)}")

    def configuration(self, obj: Object, target: Target) -> None:
        """Check an applied configuration. Unknown fields are errors in every mode: they cannot be owned.

        Raises BadRequest.
        """
        try:
            unknown = _configuration_fields(obj, target)
        except WrongType as error:
            raise BadRequest(f"failed to create typed patch object ({_subject(target)}): {error}") from None
        if unknown:
            text = "\n".join(f"  .{path}: field not declared in schema" for path in unknown)
            raise BadRequest(f"failed to create typed patch object ({_subject(target)}): errors:\n{text}")
        if self._mode == STRICT and self.warnings:
            raise BadRequest(f"error strict decoding YAML: {', '.join(self.warnings)}")

    def patched(self, new: Object, old: Object, target: Target, patch: bytes) -> None:
        """Clean the parts of an object that a patch changed. Raises Invalid."""
        try:
            self._note(clean_changed(new, old, target))
        except WrongType as error:
            raise bad_patch(patch, str(error)) from None
        if self._mode == STRICT and self.warnings:
            raise bad_patch(patch, f"strict decoding error: {', '.join(self.warnings)}")

    def _note(self, unknown: list[str]) -> None:
        if self._mode != IGNORE:
            self._of_fields.update(dict.fromkeys(f'unknown field "{path}"' for path in unknown))


def _is_yaml(media: str) -> bool:
    return media in YAML_TYPES or media.endswith("+yaml")


class BodyKind(NamedTuple):
    """The kind of object that a path expects. `clean` removes its unknown fields; None if it has no schema."""

    kind: str
    version: str
    api_version: str
    clean: Callable[[Object], list[str]] | None

    def is_of(self, obj: Object) -> bool:
        """Return True if the object is of this kind, or does not name its kind."""
        return (obj.get("kind") or self.kind) == self.kind and (
            obj.get("apiVersion") or self.api_version
        ) == self.api_version


@functools.lru_cache(maxsize=256)
def body_kind(resource: Served, subresource: str) -> BodyKind:
    """Return the kind of body that a resource or its subresource takes, with the function that checks its fields."""
    sub = resource.subresource(subresource) if subresource else None
    if sub is None:
        group, version, kind = resource.group, resource.version, resource.kind
    else:
        group, version, kind = sub.group, sub.version or resource.version, sub.kind
    clean = _cleaner(resource, group, version, kind)
    return BodyKind(kind, version, f"{group}/{version}" if group else version, clean)


def _subject(target: Target) -> str:
    name = f"{target.namespace}/{target.name}" if target.namespace else target.name
    return f"{name}; {target.resource.api_version}, Kind={target.resource.kind}"


def _cleaner(resource: Served, group: str, version: str, kind: str) -> Callable[[Object], list[str]] | None:
    if resource.custom is not None and (group, version, kind) == (resource.group, resource.version, resource.kind):
        return resource.custom.clean
    shape = kind_shape(group, version, kind)
    return None if shape is None else functools.partial(clean, shape=shape)


def _configuration_fields(obj: Object, target: Target) -> list[str]:
    """Remove the unknown fields of an applied configuration and return their paths. Raises WrongType."""
    resource, shape = target.resource, target.resource.shape
    if target.subresource == "scale":
        shape = kind_shape("autoscaling", "v1", "Scale")
    elif resource.custom is not None:
        return resource.custom.clean(obj)
    return [] if shape is None else clean(obj, shape, typed=False)


def clean_changed(new: Object, old: Object, target: Target) -> list[str]:
    """Clean the top-level fields that differ from `old`; return the paths of unknown ones. Raises WrongType."""
    clean_field = _part_cleaner(target)
    unknown = [] if clean_field is None else [path for field in _changed(new, old) for path in clean_field(new, field)]
    complete(new, target.resource.shape)
    return unknown


def _part_cleaner(target: Target) -> Callable[[Object, str], list[str]] | None:
    if target.resource.custom is not None:
        return target.resource.custom.clean_part
    shape = target.resource.shape
    return None if shape is None else lambda obj, field: clean_field(obj, shape, field)


def _changed(new: Object, old: Object) -> list[str]:
    return [field for field, value in new.items() if value != old.get(field)]


def _bad_body(sent: BodyKind, text: str) -> BadRequest:
    return BadRequest(f'{sent.kind} in version "{sent.version}" cannot be handled as a {sent.kind}: {text}')


def bad_patch(patch: bytes, text: str) -> Invalid:
    """Return the 422 for a patch that cannot be applied; the patch is shown cut."""
    return invalid_object("", "", "", [invalid("patch", patch[:SHOWN_PATCH].decode(errors="replace"), text)])

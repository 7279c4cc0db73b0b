"""fieldValidation of one request: what it refuses, and what it only warns of."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from actors.apiserver.errors.answers import BadRequest, Invalid
from actors.apiserver.errors.causes import invalid, invalid_object
from actors.apiserver.objects.paths import Obj
from actors.apiserver.request.body import JSON_TYPES, YAML_TYPES, read_yaml_body
from actors.apiserver.request.target import Target
from actors.apiserver.schemas.registry import kind_shape
from actors.apiserver.schemas.shape import Shape
from actors.apiserver.validation.duplicates import duplicates, is_json
from actors.apiserver.validation.errors import WrongType
from actors.apiserver.validation.walk import clean, clean_part
from protocols.kube.status import StatusError

IGNORE, WARN, STRICT = "Ignore", "Warn", "Strict"
SHOWN_PATCH = 4096


class Review:
    """Made for one request; `warnings` is what its answer carries. Unknown fields are dropped in every mode."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._of_text: list[str] = []
        self._of_fields: dict[str, None] = {}
        """In order, once each. Kept over the attempts of a write: cleaning a part once leaves nothing to find again."""

    @property
    def warnings(self) -> list[str]:
        return [*self._of_text, *self._of_fields]

    @contextmanager
    def told(self) -> Iterator[None]:
        """Also who is refused learns what was warned of; strict ones are refused for it."""
        try:
            yield
        except StatusError as fault:
            fault.warnings = self.warnings if self._mode == WARN else ()
            raise

    def text(self, raw: bytes, media: str, decoded: Any) -> None:
        """Look for keys the body names twice."""
        if self._mode == IGNORE:
            return
        if media in JSON_TYPES or media.endswith("+json") or (_is_yaml(media) and is_json(raw)):
            paths = duplicates(raw, decoded, thorough=self._mode == STRICT)
            self._of_text = [f'duplicate field "{path}"' for path in paths]
        elif _is_yaml(media):
            found = read_yaml_body(raw).repeated
            self._of_text = ["yaml: unmarshal errors:\n  " + "\n  ".join(found)] if found else []

    def body(self, obj: Obj, target: Target) -> None:
        """A whole object of the target's kind. Raises BadRequest; says nothing of objects of another kind."""
        group, version, kind = body_kind(target)
        cleaner = _cleaner(target, group, version, kind)
        api_version = _api_version(group, version)
        if cleaner is None or (obj.get("kind") or kind, obj.get("apiVersion") or api_version) != (kind, api_version):
            return
        try:
            self._note(cleaner(obj))
        except WrongType as error:
            raise _refused(kind, version, str(error)) from None
        if self._mode == STRICT and self.warnings:
            raise _refused(kind, version, f"strict decoding error: {', '.join(self.warnings)}")

    def configuration(self, obj: Obj, target: Target) -> None:
        """What is applied: unknown fields are refused in every mode, for nobody could own them. Raises BadRequest."""
        resource = target.resource
        cleaner = _cleaner(target, resource.group, resource.version, resource.kind)
        try:
            unknown = cleaner(obj) if cleaner is not None else []
        except WrongType as error:
            raise BadRequest(f"failed to create typed patch object ({_subject(target)}): {error}") from None
        if unknown:
            text = "\n".join(f"  .{path}: field not declared in schema" for path in unknown)
            raise BadRequest(f"failed to create typed patch object ({_subject(target)}): errors:\n{text}")
        if self._mode == STRICT and self.warnings:
            raise BadRequest(f"error strict decoding YAML: {', '.join(self.warnings)}")

    def patched(self, new: Obj, old: Obj, target: Target, patch: bytes) -> None:
        """What a patch made: only the parts it changed. Raises Invalid."""
        clean_field = _part_cleaner(target)
        if clean_field is None:
            return
        try:
            self._note([path for field in _changed(new, old) for path in clean_field(new, field)])
        except WrongType as error:
            raise _bad_patch(patch, str(error)) from None
        if self._mode == STRICT and self.warnings:
            raise _bad_patch(patch, f"strict decoding error: {', '.join(self.warnings)}")

    def _note(self, unknown: list[str]) -> None:
        if self._mode != IGNORE:
            self._of_fields.update(dict.fromkeys(f'unknown field "{path}"' for path in unknown))


def _is_yaml(media: str) -> bool:
    return media in YAML_TYPES or media.endswith("+yaml")


def body_kind(target: Target) -> tuple[str, str, str]:
    """(group, version, kind) of what is sent to this path."""
    resource = target.resource
    sub = resource.subresource(target.subresource) if target.subresource else None
    if sub is None:
        return resource.group, resource.version, resource.kind
    return sub.group, sub.version or resource.version, sub.kind


def _subject(target: Target) -> str:
    name = f"{target.namespace}/{target.name}" if target.namespace else target.name
    return f"{name}; {target.resource.api_version}, Kind={target.resource.kind}"


def _api_version(group: str, version: str) -> str:
    return f"{group}/{version}" if group else version


def _cleaner(target: Target, group: str, version: str, kind: str) -> Callable[[Obj], list[str]] | None:
    """Takes out of a body of this kind what it does not have; None = nothing is known of it."""
    resource = target.resource
    if resource.custom is not None and (group, version, kind) == (resource.group, resource.version, resource.kind):
        return resource.custom.clean
    shape = kind_shape(group, version, kind)
    return None if shape is None else lambda obj: clean(obj, shape)


def _part_cleaner(target: Target) -> Callable[[Obj, str], list[str]] | None:
    if target.resource.custom is not None:
        return target.resource.custom.clean_part
    shape = target.resource.shape
    return None if shape is None else lambda obj, field: _part(obj, shape, field)


def _changed(new: Obj, old: Obj) -> list[str]:
    return [field for field, value in new.items() if value != old.get(field)]


def _part(new: Obj, shape: Shape, field: str) -> list[str]:
    if field in shape.fields:
        return clean_part(new[field], shape, field)
    del new[field]
    return [field]


def _refused(kind: str, version: str, text: str) -> BadRequest:
    return BadRequest(f'{kind} in version "{version}" cannot be handled as a {kind}: {text}')


def _bad_patch(patch: bytes, text: str) -> Invalid:
    return invalid_object("", "", "", [invalid("patch", patch[:SHOWN_PATCH].decode(errors="replace"), text)])

"""Normalize a submitted schema: remove nulls, check the parts whose type OpenAPI leaves open."""

from typing import Any

from actors.apiserver.api.schemas.registry import registry
from actors.apiserver.writes.fields import clean

PROPS = "io.k8s.api.apiextensions.v1.JSONSchemaProps"
MAPS = ("properties", "patternProperties", "definitions")
LISTS = ("allOf", "anyOf", "oneOf")
FREE = ("default", "example", "enum")


def tidy(raw: dict[str, Any]) -> None:
    """Normalize in place.

    Raises WrongType for a schema below `additionalProperties` that is none, RecursionError.
    """
    for name in [name for name, value in raw.items() if value is None and name not in FREE]:
        del raw[name]
    for word in MAPS:
        for name, part in raw.get(word, {}).items():
            raw[word][name] = part if part is not None else {}
            tidy(raw[word][name])
    for word in LISTS:
        raw[word] = [part if part is not None else {} for part in raw[word]] if word in raw else []
        for part in raw[word]:
            tidy(part)
        if not raw[word]:
            del raw[word]
    for word in ("items", "not"):
        if word in raw:
            tidy(raw[word])
    if isinstance(raw.get("additionalProperties"), dict):
        clean(raw["additionalProperties"], registry().structs[PROPS])
        tidy(raw["additionalProperties"])

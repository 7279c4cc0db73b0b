"""JSON values as Python has them: reading a body with a proper refusal, and equality that tells true from 1."""

from typing import Any

import msgspec

from protocols.kube.errors import BodyInvalid
from protocols.kube.meta import Object

DEPTH_LIMIT = 200
"""Levels of nesting accepted from outside; no API object comes near."""


def decode_body(body: bytes) -> Any:
    """The JSON value of a request body; raises BodyInvalid."""
    try:
        value = msgspec.json.decode(body)
    except RecursionError:
        raise BodyInvalid("the request body is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BodyInvalid(f"the request body is not valid JSON: {error}") from None
    check_depth(value)
    return value


def decode_object(body: bytes) -> Object:
    """Like decode_body, for a body that must be a JSON object."""
    value = decode_body(body)
    if not isinstance(value, dict):
        raise BodyInvalid("the request body must be a JSON object")
    return value


def check_depth(value: Any, limit: int = DEPTH_LIMIT) -> None:
    """Refuse (400) what is nested deeper than `limit`, so recursive code behind it is safe."""
    level = [value]
    for _ in range(limit):
        level = [inner for outer in level for inner in _children(outer)]
        if not level:
            return
    raise BodyInvalid(f"the request body is nested more than {limit} levels deep")


def _children(value: Any) -> Any:
    if isinstance(value, dict):
        return [inner for inner in value.values() if isinstance(inner, (dict, list))]
    if isinstance(value, list):
        return [inner for inner in value if isinstance(inner, (dict, list))]
    return ()


def same_json(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 equals 1.0, but true does not equal 1."""
    if isinstance(left, dict):
        return isinstance(right, dict) and left.keys() == right.keys() and _same_values(left, right, left)
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and _same_values(left, right, range(len(left)))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def _same_values(left: Any, right: Any, keys: Any) -> bool:
    return all(same_json(left[key], right[key]) for key in keys)

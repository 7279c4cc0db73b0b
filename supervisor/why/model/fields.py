"""Values of objects of the API. Those of a wrong type count as missing."""

from typing import Any

from protocols.kube.meta import Object


def number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def rows(value: Any) -> list[Object]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []

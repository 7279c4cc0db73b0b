"""Values of objects of the API. Those of a wrong type count as missing."""

from typing import Any

from protocols.kube.meta import Object


def number(value: Any) -> int:
    """Return an int; 0 for anything else."""
    return value if isinstance(value, int) else 0


def mapping(value: Any) -> dict[str, Any]:
    """Return an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def rows(value: Any) -> list[Object]:
    """Return the objects of a list; none for anything else."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []

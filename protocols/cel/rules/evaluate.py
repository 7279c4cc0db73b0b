"""Run rules of custom resources. Programs are kept by text: values are plain maps, so one environment serves all."""

import functools

from protocols.cel.validation import Program, compiled

HAS_OLD = "_np_has_old"
OPTIONAL = {"oldSelf": (f"({HAS_OLD} ? optional.of(", ") : optional.none())")}


@functools.lru_cache(maxsize=4096)
def program(text: str, optional_old: bool) -> Program:
    """Raises CompileError."""
    return compiled(HAS_OLD, text, OPTIONAL if optional_old else None)

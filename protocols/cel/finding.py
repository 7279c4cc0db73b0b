"""`find` and `findAll`: what a pattern matches, in RE2's own time, which only the engine can do. It replaces each match
by itself between two marks that the text does not have, and the marks tell where they are."""

import functools
from typing import TYPE_CHECKING

from protocols.cel.library import INT, STRING, Function
from protocols.cel.lists import LISTS
from protocols.cel.told import told

if TYPE_CHECKING:
    from cel_expr_python import cel

_CONFIG = "name: finding\nextensions:\n- name: optional\n- name: regex\n"
_MARKS = range(0xE000, 0xF900)
"""Characters nobody has given a meaning."""


def _find(text: str, pattern: str) -> str:
    return next(iter(_found(text, pattern, 1)), "")


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    """All of them where `most` is negative."""
    return _found(text, pattern, most) if most else []


def _found(text: str, pattern: str, most: int) -> list[str]:
    """Raises ValueError for what is no pattern."""
    mark = next((chr(code) for code in _MARKS if chr(code) not in text), "")
    if not mark:
        raise ValueError("the text holds every character of the private use area")
    expression, error = _replacing()
    result = expression.eval(data={"text": text, "pattern": pattern, "by": f"{mark}\\0{mark}", "most": max(most, -1)})
    marked: str = result.value()
    if result.type() == error:
        raise ValueError(told(marked))
    return marked.split(mark)[1::2]


@functools.cache
def _replacing() -> tuple["cel.Expression", "cel.Type"]:
    """And the type of errors."""
    from cel_expr_python import cel

    kinds = cel.Type
    variables = {"text": kinds.STRING, "pattern": kinds.STRING, "by": kinds.STRING, "most": kinds.INT}
    env: cel.Env = cel.NewEnv(config=cel.NewEnvConfigFromYaml(_CONFIG), variables=variables)
    return env.compile("regex.replace(text, pattern, by, most)"), kinds.ERROR


FUNCTIONS = (
    Function("find", "string_find_string", STRING, (STRING, STRING), _find),
    Function("findAll", "string_find_all_string", LISTS[STRING], (STRING, STRING), _find_all),
    Function("findAll", "string_find_all_string_int", LISTS[STRING], (STRING, STRING, INT), _find_all),
)

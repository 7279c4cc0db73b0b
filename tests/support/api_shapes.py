"""Objects made of the shapes of their kinds: every field may be there, and be null, empty, strange or very large."""

import random
from typing import Any

from protocols.kinds.shapes import shape as forms
from protocols.kinds.shapes.shape import Shape

DEEPEST = 9
NUMBERS = [0, 1, -1, 2**31 - 1, -(2**31), 2**63 - 1]
QUANTITIES = ["0", "1", "-1", "1e400", "1e-400", "9" * 200, "9" * 250 + "Ei", ".5m", "1Gi", 5, -3, 10**400, 1e300]
TEXTS = ["", "a", "x" * 300, "é", "\0", "a/b", "a b", "-", "default", "Pod", "1", "9" * 5000, "10.0.0.1", "v1", "a.b/c"]
TIMES = ["2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "2026-99-99T99:99:99Z"]
ANYTHING: list[Any] = [None, {}, [], [None], {"a": None}, 10**400, "x", True, 1.5]
SCALARS: dict[str, list[Any]] = {
    forms.TEXT: TEXTS,
    forms.BOOL: [True, False],
    forms.INT32: [number for number in NUMBERS if abs(number) < 2**31],
    forms.INT64: NUMBERS,
    forms.BYTES: ["", "YQ==", "!"],
    forms.TIME: TIMES,
    forms.MICROTIME: [time.replace("Z", ".000000Z") for time in TIMES],
    forms.QUANTITY: QUANTITIES,
    forms.INT_OR_STRING: [0, "a", "100%", "-1", 2**31 - 1],
    forms.JSON: ANYTHING,
    forms.ANY: [{}, {"a": None}, {"kind": "X"}],
}


def made(shape: Shape, dice: random.Random, depth: int = 0) -> Any:
    """Return a value of `shape`: of the right types, mostly, or null."""
    if dice.random() < 0.06:
        return None
    if dice.random() < 0.01:
        return dice.choice(ANYTHING)
    if shape.form == forms.STRUCT:
        share = 1.0 if depth < 2 else dice.choice((0.0, 0.2, 0.6))
        names = [name for name in shape.fields if depth < DEEPEST and dice.random() < share]
        return {name: made(shape.fields[name], dice, depth + 1) for name in names}
    if shape.form == forms.LIST:
        assert shape.item is not None
        return [made(shape.item, dice, depth + 1) for _ in range(dice.choice((0, 1, 1, 2)))]
    if shape.form == forms.MAP:
        assert shape.item is not None
        return {dice.choice(TEXTS): made(shape.item, dice, depth + 1) for _ in range(dice.choice((0, 1, 2)))}
    return dice.choice(SCALARS[shape.form])

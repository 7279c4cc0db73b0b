"""Cost of each function and the size of its result, by the sizes of its target and arguments."""

from collections.abc import Callable, Mapping

from protocols.cel.costs.sizes import (
    DOMAINS,
    ENTRIES,
    FAR,
    ONE,
    Declared,
    Entries,
    Given,
    Size,
    element,
    largest,
    product,
    tenth,
    together,
    total,
    walked,
)

Sizes = list[Size]
Rule = Callable[[Sizes], tuple[int, Size]]
DIGITS = 1000
"""Characters that one number can become in `format`."""
TWICE, WRITTEN = 2, 16
"""Characters that `format` makes of one of a text (`%x`), and of a part of another value."""
READING = ("int", "uint", "double", "bool", "duration", "timestamp")
"""Conversions, which upstream prices alike whatever they read."""
PATTERN = 128
"""Characters of the longest pattern that a named format stands for."""
FAULTS, FAULT = 4, 512
"""Results of a named format: number of messages, and characters of one without the quoted text."""
FORMAT = Size(64, 64)


def linear(sizes: Sizes) -> tuple[int, Size]:
    """Cost any function without a rule: it reads all arguments, and its result is no larger than they are together."""
    return total(1, *map(walked, sizes)), together(sizes) if sizes else ONE


def _yes_or_no(cost: Callable[[Sizes], int]) -> Rule:
    return lambda sizes: (cost(sizes), ONE)


def _passed(sizes: Sizes) -> tuple[int, Size]:
    return 1, largest(sizes)


def _part(sizes: Sizes) -> tuple[int, Size]:
    return 1, element(sizes[0])


def _either(sizes: Sizes) -> tuple[int, Size]:
    return 0, largest(sizes[1:])


def _plus(sizes: Sizes) -> tuple[int, Size]:
    """Texts are copied fast, lists one by one: so are those that `map` and `filter` append to."""
    left, right = sizes
    text = left.length == left.deep and right.length == right.deep
    return total(1, *((tenth(size.length) if text else size.length) for size in sizes)), together(sizes)


def _smaller(sizes: Sizes) -> int:
    """Upstream's for what comes with a request: a list is as cheap as a text of its length."""
    return max(1, min(tenth(size.length) if isinstance(size, Given) else walked(size) for size in sizes))


def _prefixed(sizes: Sizes) -> int:
    return tenth(sizes[1].length)


def _added(sizes: Sizes) -> tuple[int, Size]:
    """Cost `+` that appends one element to the list that a macro makes."""
    return 1, together(sizes)


def _inserted(sizes: Sizes) -> tuple[int, Size]:
    """Cost an entry, or a map of entries, added to the map that a macro makes."""
    known, *entry = sizes
    parts = entry if len(entry) > 1 else [element(entry[0])]
    count = 1 if len(entry) > 1 else entry[0].length
    items = [known.item] if isinstance(known, Declared) and known.item is not None else []
    size = Declared(
        total(known.length, count),
        total(known.deep, 1, *(cost.deep for cost in entry)),
        largest([*items, *parts]),
    )
    return total(1, known.length, *map(walked, entry)), size


def _matches(sizes: Sizes) -> int:
    return product(tenth(sizes[0].length + 1), max(1, sizes[1].length // 4))


def _found(sizes: Sizes) -> tuple[int, Size]:
    return _matches(sizes), sizes[0]


def _all_found(sizes: Sizes) -> tuple[int, Size]:
    count = sizes[0].length + 1
    return _matches(sizes), Size(count, 2 * count)


def _place(sizes: Sizes) -> int:
    return total(1, *map(walked, sizes))


def _among(sizes: Sizes) -> int:
    return 1 if sizes[1] in (DOMAINS, ENTRIES) or isinstance(sizes[1], Entries) else max(1, sizes[1].length)


def _replaced(sizes: Sizes) -> tuple[int, Size]:
    text, new = sizes[0].length, sizes[2].length
    length = product(text + 1, new + 1) if new else text
    return tenth(max(2 * text, length)), Size(length, length)


def _joined(sizes: Sizes) -> tuple[int, Size]:
    between = sizes[1].length if len(sizes) > 1 else 0
    length = total(sizes[0].deep, product(sizes[0].length, between))
    return total(sizes[0].length, tenth(length)), Size(length, length)


def _formatted(sizes: Sizes) -> tuple[int, Size]:
    """Each element of the list is written once, at most."""
    template, values = sizes[0], sizes[-1]
    item = element(values)
    parts = product(values.deep, TWICE if item.length == item.deep else WRITTEN)
    length = total(template.length, product(min(values.length, template.length), DIGITS), parts)
    return tenth(length), Size(length, length)


def _split(sizes: Sizes) -> tuple[int, Size]:
    return tenth(2 * sizes[0].length), Size(sizes[0].length + 1, 2 * (sizes[0].length + 1))


def _quoted(sizes: Sizes) -> tuple[int, Size]:
    length = 6 * sizes[0].length + 2
    return tenth(length), Size(length, length)


def _ordered(sizes: Sizes) -> tuple[int, Size]:
    return product(largest(sizes).deep, 16), sizes[0]


def _pairwise(sizes: Sizes) -> int:
    return max(1, product(sizes[0].length, sizes[-1].length))


def _pairwise_twice(sizes: Sizes) -> int:
    return product(2, _pairwise(sizes))


def _flat(sizes: Sizes) -> tuple[int, Size]:
    return sizes[0].deep, Size(sizes[0].deep, sizes[0].deep + 1)


def _range(sizes: Sizes) -> tuple[int, Size]:
    length = sizes[0].length if sizes else FAR
    return product(length, 4), Size(length, product(length, 2))


def _first(sizes: Sizes) -> tuple[int, Size]:
    """Cost an optional lookup or a default; on the maps of attributes it is an index."""
    known = next((size for size in sizes if size in (DOMAINS, ENTRIES)), None)
    return 1, known or largest(sizes)


def _judged(sizes: Sizes) -> tuple[int, Size]:
    """Return the price of `validate`, that of a long pattern; the unit of the `[?0]` that we append is given back."""
    message = Size(FAULT + 6 * sizes[-1].length, FAULT + 6 * sizes[-1].length)
    faults = Declared(FAULTS, total(FAULTS, product(FAULTS, message.deep)), message)
    return max(0, product(tenth(sizes[-1].length), PATTERN // 4) - 1), Declared(1, faults.deep, faults)


NUMBERS: Rule = _yes_or_no(lambda sizes: 1)
"""`+` of numbers."""
APPENDING: Rule = _added
RULES: Mapping[str, Rule] = {
    "_&&_": _yes_or_no(lambda sizes: 0),
    "_||_": _yes_or_no(lambda sizes: 0),
    "!_": _yes_or_no(lambda sizes: 1),
    "@not_strictly_false": _yes_or_no(lambda sizes: 0),
    "_?_:_": _either,
    "_+_": _plus,
    "cel.@mapInsert": _inserted,
    **{f"_{sign}_": _yes_or_no(_smaller) for sign in ("==", "!=", "<", "<=", ">", ">=")},
    "@in": _yes_or_no(_among),
    "_[_]": _part,
    "_[?_]": _part,
    "_?._": _part,
    "first": _part,
    "last": _part,
    **dict.fromkeys(("startsWith", "endsWith"), _yes_or_no(_prefixed)),
    **dict.fromkeys(READING, _yes_or_no(lambda sizes: 1)),
    "matches": _yes_or_no(_matches),
    "find": _found,
    "findAll": _all_found,
    **dict.fromkeys(("indexOf", "lastIndexOf", "indexOF", "lastIndexOF"), _yes_or_no(_place)),
    "replace": _replaced,
    "join": _joined,
    "format": _formatted,
    "split": _split,
    "strings.quote": _quoted,
    "sort": _ordered,
    "@sortByAssociatedKeys": _ordered,
    "distinct": lambda sizes: (product(sizes[0].length, sizes[0].deep), sizes[0]),
    "sets.contains": _yes_or_no(_pairwise),
    "sets.intersects": _yes_or_no(_pairwise),
    "sets.equivalent": _yes_or_no(_pairwise_twice),
    "flatten": _flat,
    "lists.range": _range,
    "size": _yes_or_no(lambda sizes: 1),
    "slice": lambda sizes: (sizes[0].length, sizes[0]),
    "validate": _judged,
    "format.named": lambda sizes: (0, Declared(1, FORMAT.deep, FORMAT)),
    "dyn": _passed,
    "optional.of": _passed,
    "optional.unwrap": _passed,
    "unwrapOpt": _passed,
    "optional.ofNonZeroValue": _passed,
    "value": _passed,
    "hasValue": _yes_or_no(lambda sizes: 1),
    "or": _first,
    "orValue": _first,
    **{
        name: _yes_or_no(lambda sizes: 1)
        for name in ("isGreaterThan", "isLessThan", "compareTo", "major", "minor", "patch", "asInteger", "isInteger")
    },
}

"""No pattern of the product takes time by the square of a text: whoever sends the text would hold an event loop."""

import importlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
Try = Callable[..., object]
LENGTH, LIMIT_S = 3000, 0.004
"""Characters of a text, and CPU time of one try: a hundred times what a linear pattern takes."""
REPEATED = (*"1aA-. /['\":,=@%{(\n_", "1s", "1.", "a.", "a-", "a,", "['", "\\a", "-----BEGIN A-----\n")
BEGINNINGS = ("", "1", "a", "{", "'", "iqn.2000-01.")

BOUNDED = {
    "protocols.kinds.go_source.IMPORT",
    "protocols.kinds.go_source.TAG",
    "protocols.kube.times._PART",
    "protocols.recording.samples._LABEL",
}
"""Search texts that are short, valid or our own."""


def patterns() -> Iterator[tuple[str, Try]]:
    """Yield each pattern with the way in which its module tries it."""
    for path in sorted(each for folder in ("actors", "protocols") for each in (ROOT / folder).rglob("*.py")):
        if "re.compile(" not in (source := path.read_text()):
            continue
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for name, value in vars(importlib.import_module(module)).items():
            scans = re.search(rf"\b{name}\.(search|finditer|findall|sub|split)\(", source)
            for each in value.values() if isinstance(value, dict) else (value,):
                if isinstance(each, re.Pattern):
                    yield f"{module}.{name}", each.search if scans else each.fullmatch


def slow(try_: Try) -> Iterator[str]:
    is_bytes = isinstance(try_.__self__.pattern, bytes)  # type: ignore[attr-defined]  # a bound method
    for begin in BEGINNINGS:
        for part in REPEATED:
            text = begin + part * (LENGTH // len(part)) + "\0"
            before = time.process_time()
            try_(text.encode() if is_bytes else text)
            if time.process_time() - before > LIMIT_S:
                yield f"{begin}{part * 3}"


def test_patterns_take_linear_time() -> None:
    tries = [(name, try_) for name, try_ in patterns() if name not in BOUNDED]
    assert {name: texts for name, try_ in tries if (texts := list(slow(try_)))} == {}

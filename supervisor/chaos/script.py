"""The grammar of scripts; a whole script is parsed before its first line is played.

A line is an order or an expectation; `#` begins a comment, ` &` at its end runs the line in the background, and
`within SECONDS` sets another limit than 60 s.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from protocols.messages.cri import RUNTIME_FAULTS
from supervisor.base.errors import SupervisorError, UsageError

WITHIN_S = 60.0
"""Default limit for an expectation to hold and for an order to succeed."""


class ScriptLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a script."""

    line: int
    text: str
    verb: str
    words: tuple[str, ...]
    within: float = WITHIN_S
    background: bool = False
    """The line ended with `&`: the next one does not wait for it."""
    body: tuple["ScriptLine", ...] = ()
    """Steps between `repeat` and `end`."""


class Script(msgspec.Struct, frozen=True):
    """A parsed script; its name is that of the file."""

    name: str
    steps: tuple[ScriptLine, ...]


class ScriptInvalid(UsageError):
    """Raised before anything is played when a line cannot be parsed."""


class ScriptFailed(SupervisorError):
    """Raised when an expectation or order does not succeed within its limit."""


LIMIT = 1000
"""Limit of lines, of repetitions, and of numbers in a script."""
HEALTH = ("unhealthy", "healthy", "clear")
POD_STATES = ("ready", "running", "succeeded", "failed", "gone", "restarted")
DEVICE_STATES = ("healthy", "unhealthy", "unknown", "free", "held")


class Syntax(NamedTuple):
    """The words after a verb: a slot is a placeholder name, a tuple of allowed words, `number` or `count`."""

    slots: tuple[str | tuple[str, ...], ...]
    repeats: bool = False


SYNTAX = {
    "kill": Syntax(("ACTOR",), repeats=True),
    "stop": Syntax(("ACTOR",), repeats=True),
    "continue": Syntax(("ACTOR",), repeats=True),
    "restart": Syntax(("ACTOR",)),
    "scale": Syntax(("watcher", "count")),
    "device": Syntax(("RESOURCE", "ID", HEALTH)),
    "runtime": Syntax((RUNTIME_FAULTS,)),
    "apply": Syntax(("FILE",)),
    "delete": Syntax(("pod", "NAME")),
    "wait": Syntax(("number",)),
    "join": Syntax(()),
    "repeat": Syntax(("count",)),
    "end": Syntax(()),
}
SYNTAX_FOR_DRIVERS = {"device": Syntax(("DRIVER/POOL/DEVICE", (*HEALTH, "unknown")))}
"""The same verbs for the device of a DRA driver."""
EXPECTED = {
    "pod": Syntax(("NAME", POD_STATES)),
    "device": Syntax(("RESOURCE", "ID", DEVICE_STATES)),
    "actor": Syntax(("NAME", ("live",))),
    "plane": Syntax((("synced", "settled"),)),
}


EXPECTED_FOR_DRIVERS = {"device": Syntax(("DRIVER/POOL/DEVICE", ("healthy", "unhealthy", "unknown")))}


def parse(name: str, text: str) -> Script:
    """Parse a script. Raises ScriptInvalid, which names the line."""
    lines = text.splitlines()
    if len(lines) > LIMIT:
        raise ScriptInvalid(f"{name}: {len(lines)} lines are too many; {LIMIT} are the limit")
    reader = _Reader(name)
    steps = reader.block(enumerate(lines, start=1), depth=0)
    if not steps:
        raise ScriptInvalid(f"{name}: it has no line to play; {', '.join([*SYNTAX, 'expect'])} begin one")
    return Script(name, steps)


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name

    def block(self, lines: Iterator[tuple[int, str]], depth: int) -> tuple[ScriptLine, ...]:
        """Return the steps up to `end`, or to the end of the script outside of `repeat`."""
        steps: list[ScriptLine] = []
        for number, line in lines:
            text = line.partition("#")[0].strip()
            if not text:
                continue
            step = self._step(number, text)
            if step.verb == "end":
                self._require(depth > 0, step, "there is no `repeat` to end")
                return tuple(steps)
            if step.verb == "repeat":
                self._require(depth < 3, step, "repeats are nested too deep")
                body = self.block(lines, depth + 1)
                step = ScriptLine(line=number, text=text, verb="repeat", words=step.words, body=body)
            steps.append(step)
        if depth:
            raise ScriptInvalid(f"{self._name}: `repeat` has no `end`")
        return tuple(steps)

    def _step(self, number: int, text: str) -> ScriptLine:
        verb, *words = text.removesuffix(" &").split()
        step = ScriptLine(line=number, text=text, verb=verb, words=tuple(words), background=text.endswith(" &"))
        if "within" in words:
            place = words.index("within")
            self._require(len(words) == place + 2, step, "`within` is followed by seconds, and nothing else")
            seconds = self._number(words[-1], step)
            step = ScriptLine(
                line=number,
                text=text,
                verb=verb,
                words=tuple(words[:place]),
                within=seconds,
                background=step.background,
            )
        self._check(step)
        return step

    def _check(self, step: ScriptLine) -> None:
        words, forms, shorter, verb = step.words, SYNTAX, SYNTAX_FOR_DRIVERS, step.verb
        if verb == "expect":
            self._require(bool(words), step, f"expect what? one of {', '.join(EXPECTED)}")
            forms, shorter, verb, words = EXPECTED, EXPECTED_FOR_DRIVERS, words[0], words[1:]
        form = shorter[verb] if verb in shorter and len(words) == 2 else forms.get(verb)
        if form is None:
            raise self._fault(
                step, f"{verb!r} is none of {', '.join([*forms, *(['expect'] if forms is SYNTAX else [])])}"
            )
        self._fill(step, form, words)

    def _fill(self, step: ScriptLine, form: Syntax, words: tuple[str, ...]) -> None:
        enough = len(words) == len(form.slots) or (form.repeats and len(words) > len(form.slots))
        self._require(enough, step, f"it is followed by {' '.join(map(_shown, form.slots)) or 'nothing'}")
        for slot, word in zip(form.slots, words, strict=False):
            if slot in ("number", "count"):
                whole = self._number(word, step).is_integer()
                self._require(whole or slot == "number", step, f"{word} is no whole number")
            elif isinstance(slot, tuple) or slot.islower():
                allowed = slot if isinstance(slot, tuple) else (slot,)
                self._require(word in allowed, step, f"{word!r} is none of {', '.join(allowed)}")

    def _number(self, word: str, step: ScriptLine) -> float:
        try:
            value = float(word)
        except ValueError:
            raise self._fault(step, f"{word!r} is no number") from None
        self._require(0 <= value <= LIMIT, step, f"{word} is not between 0 and {LIMIT}")
        return value

    def _require(self, holds: bool, step: ScriptLine, why: str) -> None:
        if not holds:
            raise self._fault(step, why)

    def _fault(self, step: ScriptLine, why: str) -> ScriptInvalid:
        return ScriptInvalid(f"{self._name}:{step.line}: {step.text}: {why}")


def _shown(slot: str | tuple[str, ...]) -> str:
    return "|".join(slot) if isinstance(slot, tuple) else slot

"""Compare the evaluator with the native library, which runs in a process of its own since it may end with a signal.

`python -m tests.fuzz.native` reads expressions as JSON strings, one a line, and answers each with its outcome.
"""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from protocols.cel import policies
from protocols.cel.text.source import CelError, EvaluationError
from tests.fuzz.grammar import Grammar

DATA = {"object": {"a": 1, "b": [1, 2.5, "x"], "c": {"a": "é", "d": None}}}
GRAMMAR = Grammar(
    (("object", "dyn"),),
    {"dyn": ["object.b", "object.c", "object.a", "object.c.a"], "opt<dyn>": ["object.?a", "object.c.?d", "object.?zz"]},
)
OURS = (
    "quantity", "semver", "ip(", "cidr(", "url(", "format.", "isIP", "isCIDR", "isURL", "isQuantity", "isSemver",
    "ip.is", ".find(", ".findAll(", ".isSorted(", ".sum()", ".min()", ".max()",
)  # fmt: skip
"""Functions that the native library does not have."""
DIFFERENCES = {
    "cel.@mapInsert": "transformMap and transformMapEntry pass the library's check and cannot run",
    "No matching overloads found : _?._": "upstream's optional part of a number or text is none",
    "No matching overloads found : _[?_]": "upstream's optional part of a number or text is none",
    "Applying SELECT to non-message": "upstream's has() of a number or text is false",
    "index out of range": "upstream's indexOf behind the end is -1",
    "Iteration budget exceeded": "the library counts turns, upstream counts cost",
    "NaN values cannot be ordered": "for the library, a comparison with NaN is false",
}
"""Outcomes that only one of library and upstream has, by a part of their text, and why."""
EXPRESSIONS = {
    ".split('')": "the library splits an empty text into one, Go into none",
    "string(double('inf'))": "Go writes +Inf",
    ".getMilliseconds()": "upstream gives all of a duration, not the rest",
    ".sortBy(": "the library's sort is not stable",
    "timestamp('9999-12-31T23:59:59Z')": "the library ends with the year 9999 in each zone",
    ".?a[": "the library takes an element that a number lacks as one that is there",
    ")[": "the library takes an element that an optional list lacks as one that is there",
}
"""Parts of expressions whose outcomes differ, and why."""


def known(text: str, *outcomes: str) -> bool:
    return any(difference in outcome for difference in DIFFERENCES for outcome in outcomes) or any(
        expression in text for expression in EXPRESSIONS
    )


def expressions(seed: int, count: int) -> Iterator[str]:
    """Yield expressions that pass our check and are made of what both have."""
    chance = random.Random(seed)
    while count:
        text = GRAMMAR.make(chance, "bool", chance.choice((1, 2, 2, 3)))
        if any(each in text for each in OURS):
            continue
        try:
            policies.check(text, policies.PolicyScope())
        except CelError:
            continue
        count -= 1
        yield text


def ours(text: str) -> str:
    try:
        value = policies.program(text, policies.PolicyScope()).value(DATA)
    except EvaluationError as error:
        return f"error: {error}"
    return str(value).lower()


def natives(texts: list[str]) -> list[str]:
    """Return the outcomes of the native library; "died" for an expression that ends its process."""
    outcomes: list[str] = []
    while len(outcomes) < len(texts):
        rest = texts[len(outcomes) :]
        done = subprocess.run(
            [sys.executable, "-m", "tests.fuzz.native"],
            input="".join(json.dumps(text) + "\n" for text in rest),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        lines = done.stdout.splitlines()
        outcomes += [json.loads(line) for line in lines]
        if len(lines) < len(rest):
            outcomes.append("died")
    return outcomes


def main() -> None:
    from cel_expr_python import cel

    from protocols.cel.environment import LIBRARIES

    extensions = "".join(f"- name: {library}\n" for library in LIBRARIES)
    config = cel.NewEnvConfigFromYaml(f"name: native\nextensions:\n{extensions}")
    env = cel.NewEnv(config=config, variables={"object": cel.Type.DYN})
    for line in sys.stdin:
        print(json.dumps(_outcome(env, cel.Type.ERROR, json.loads(line))), flush=True)


def _outcome(env: Any, error: Any, text: str) -> str:
    """Return true, false, an error, or why there is nothing to compare."""
    try:
        result = env.compile(text).eval(data=DATA)
        if result.type() == error:
            return f"error: {result.value()}"
        value = result.value()
        return str(value).lower() if isinstance(value, bool) else f"refused: {type(value).__name__}"
    except ValueError as fault:
        return f"refused: {fault}"
    except RuntimeError as fault:
        return f"{'refused' if '<input>' in str(fault) else 'error'}: {fault}"


if __name__ == "__main__":
    main()

"""Hold what a command printed with `-o json` to its schema, with no field beyond those that it describes."""

import json
from collections.abc import Sequence
from functools import cache

from jsonschema_rs import Draft202012Validator

from supervisor.cli.outputs import LINES, OUTPUTS, schema

LONG = {"-f": "--follow"}


def name_of(arguments: Sequence[str]) -> str:
    """Return the name of the output that the words of a command choose, the most specific one."""
    words = {LONG.get(word, word) for word in arguments}
    named = [name for name in OUTPUTS if name.split()[0] == arguments[0] and set(name.split()) <= words]
    return max(named, key=len, default="")


def check_output(arguments: Sequence[str], text: str) -> None:
    """Raise AssertionError if the command was asked for JSON and printed anything that is not in its schema."""
    if "json" not in arguments:
        return
    name = name_of(arguments[2:] if arguments[0] == "--root" else arguments)
    assert name, f"no output is described for nodeplane {' '.join(arguments)}"
    whole = text.splitlines() if OUTPUTS[name].shape == LINES else [text] if text else []
    for document in whole:
        faults = [
            f"{error.instance_path}: {error.message}" for error in _validator(name).iter_errors(json.loads(document))
        ]
        assert not faults, f"nodeplane {' '.join(arguments)}: {faults[:3]}"


@cache
def _validator(name: str) -> Draft202012Validator:
    found = schema(name)
    for struct in found["$defs"].values():
        struct["additionalProperties"] = False
    return Draft202012Validator(found)

"""Flags of `nodeplane fleet fault` and `nodeplane fleet status`: each field of a fault is a flag."""

import argparse
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

import msgspec

from actors.fleet.faults.script import ACTIONS, Fault
from protocols.errors import SettingsInvalid
from protocols.process.scripts import ScriptInvalid, parse_script

FAULT, STATUS = "fault", "status"
ORDERS = (FAULT, STATUS)
"""Orders to a fleet that runs."""


class FaultFlag(NamedTuple):
    """A flag, and the field of a fault that it sets; `read` parses its value."""

    option: str
    key: str
    """Name of the field in a script."""
    help: str
    metavar: str
    choices: tuple[str, ...] | None
    read: Callable[[str], Any]


def fault_flags() -> dict[str, FaultFlag]:
    """Return the flags by the names of the fields."""
    hints = get_type_hints(Fault, include_extras=True)
    names = {field.name: field.encode_name for field in msgspec.structs.fields(Fault)}
    return {name: _flag(name, key, *get_args(hints[name])) for name, key in names.items()}


def _flag(name: str, key: str, kind: Any, meta: msgspec.Meta) -> FaultFlag:
    parts = [kind, *get_args(kind)]
    choices = next((get_args(part) for part in parts if get_origin(part) is Literal), None)
    read = str if int not in parts else _number_or_text if str in parts else int
    metavar = str((meta.extra or {}).get("metavar", ""))
    return FaultFlag(f"--{name.replace('_', '-')}", key, str(meta.description), metavar, choices, read)


def _number_or_text(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def add_orders(orders: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str) -> None:
    """Add the orders to a fleet that runs. `name`: of the fleet, by default."""
    fault = orders.add_parser(FAULT, help="let a fault happen on a fleet that runs", allow_abbrev=False)
    for field, flag in fault_flags().items():
        fault.add_argument(
            flag.option,
            dest=field,
            metavar=flag.metavar or None,
            choices=flag.choices,
            type=flag.read,
            help=flag.help.replace("%", "%%"),
        )
    status = orders.add_parser(STATUS, help="print the state of a fleet that runs", allow_abbrev=False)
    for parser in (fault, status):
        parser.add_argument("--name", default=name, metavar="NAME", help=f"name of the fleet ({name})")
        parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="format (text)")


def fault_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the fault that the flags describe, as a script has it. Raises SettingsInvalid."""
    flags = fault_flags()
    fault = {flag.key: value for name, flag in flags.items() if (value := getattr(args, name)) is not None}
    if not any(getattr(args, name) for name in ACTIONS):
        raise SettingsInvalid(f"the fault is missing; give one of {', '.join(flags[name].option for name in ACTIONS)}")
    try:
        parse_script("fault", msgspec.json.encode(fault), Fault)
    except ScriptInvalid as error:
        raise SettingsInvalid(str(error)) from None
    return fault

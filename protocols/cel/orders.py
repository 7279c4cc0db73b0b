"""`<`, `<=`, `>` and `>=` between numbers of different kinds. The engine can do that when it runs, and refuses it when
it checks: its own declarations are taken out, and made anew with the missing ones."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cel_expr_python import cel

_SIGNS = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
CONFIG = "stdlib:\n  exclude_functions:\n" + "".join(f"  - name: '{sign}'\n" for sign in _SIGNS)


def orders(native: Any) -> list["cel.FunctionDecl"]:
    kinds = native.Type
    numbers = {"int64": kinds.INT, "uint64": kinds.UINT, "double": kinds.DOUBLE}
    others = {"bool": kinds.BOOL, "string": kinds.STRING, "bytes": kinds.BYTES}
    others |= {"timestamp": kinds.TIMESTAMP, "duration": kinds.DURATION}
    pairs = [(one, other) for one in numbers for other in numbers] + [(name, name) for name in others]
    types = numbers | others

    def overload(name: str, one: str, other: str) -> "cel.Overload":
        id_ = f"{name}_{one}" if one == other else f"{name}_{one}_{other}"
        parameters = [types[one], types[other]]
        made: cel.Overload = native.Overload(id_, return_type=kinds.BOOL, parameters=parameters, is_member=False)
        return made

    return [
        native.FunctionDecl(sign, [overload(name, one, other) for one, other in pairs]) for sign, name in _SIGNS.items()
    ]

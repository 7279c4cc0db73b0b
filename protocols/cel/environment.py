"""What selectors of devices and rules of custom resources have in common: libraries, types of ours, functions."""

from typing import TYPE_CHECKING, Any

from protocols.cel import addresses, finding, lists, named, orders, places
from protocols.cel.library import BOOL, DOUBLE, INT, QUANTITY, STRING, VERSION, declared

if TYPE_CHECKING:
    from cel_expr_python import cel

LIBRARIES = ("bindings", "strings", "optional", "sets", "lists", "math", "two-var-comprehensions")
_EVERYWHERE = (*addresses.FUNCTIONS, *finding.FUNCTIONS, *named.FUNCTIONS)
OPAQUE = {
    QUANTITY: "kubernetes.Quantity",
    VERSION: "kubernetes.Semver",
    addresses.IP: "net.IP",
    addresses.CIDR: "net.CIDR",
    addresses.URL: "kubernetes.URL",
    named.FORMAT: "kubernetes.NamedFormat",
}


def config(native: Any, name: str) -> "cel.EnvConfig":
    extensions = "".join(f"- name: {library}\n" for library in LIBRARIES)
    made: cel.EnvConfig = native.NewEnvConfigFromYaml(f"name: {name}\nextensions:\n{extensions}{orders.CONFIG}")
    return made


def types(native: Any, run: bool) -> dict[str, "cel.Type"]:
    """By our names. To check, our own are types; to run, bytes."""
    kinds = native.Type
    opaque = {name: kinds.BYTES if run else kinds.AbstractType(full) for name, full in OPAQUE.items()}
    plain = {STRING: kinds.STRING, BOOL: kinds.BOOL, INT: kinds.INT, DOUBLE: kinds.DOUBLE, lists.DYN: kinds.DYN}
    made = {name: kinds.List(plain[kind]) for kind, name in lists.LISTS.items()}
    made |= {"uint": kinds.UINT, "bytes": kinds.BYTES, "timestamp": kinds.TIMESTAMP, "duration": kinds.DURATION}
    made |= {"null": kinds.NULL, "map": kinds.Map(kinds.DYN, kinds.DYN)}
    texts = kinds.List(kinds.STRING)
    made |= {named.FORMATS: kinds.List(opaque[named.FORMAT]), named.FAULTS: kinds.List(texts)}
    made |= {lists.ANY_LIST: kinds.List(kinds.DYN), addresses.QUERY: kinds.Map(kinds.STRING, texts)}
    return plain | made | opaque


def functions(native: Any, known: dict[str, "cel.Type"], run: bool) -> list["cel.FunctionDecl"]:
    more = (*lists.RUN, *places.RUN) if run else (*lists.CHECKED, *places.CHECKED)
    return [*declared(native, known, run, (*_EVERYWHERE, *more)), *orders.orders(native)]

"""msgspec writes and reads the bus with types, msgpack reads it without: both agree on every byte of every message."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import inspect

from protocols import messages
from protocols.bus import frames
from protocols.bus.frames import EMPTY, body_of

INTEGERS = st.integers(-(2**63), 2**64 - 1)
VALUES = {
    inspect.NoneType: st.none(),
    inspect.BoolType: st.booleans(),
    inspect.IntType: INTEGERS,
    inspect.FloatType: st.floats(allow_nan=False),
    inspect.StrType: st.text(),
    inspect.BytesType: st.binary(),
    inspect.AnyType: st.one_of(st.none(), st.booleans(), INTEGERS, st.floats(allow_nan=False), st.text(), st.binary()),
}


def values_of(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Generate values of a type, as msgspec would encode them."""
    match kind:
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.EnumType():
            return st.sampled_from(kind.cls)
        case inspect.UnionType():
            return st.one_of([values_of(each) for each in kind.types])
        case inspect.ListType():
            return st.lists(values_of(kind.item_type), max_size=3)
        case inspect.VarTupleType() | inspect.FrozenSetType():
            return st.lists(values_of(kind.item_type), max_size=3).map(tuple)
        case inspect.TupleType():
            return st.tuples(*(values_of(each) for each in kind.item_types))
        case inspect.DictType():
            return st.dictionaries(values_of(kind.key_type), values_of(kind.value_type), max_size=3)
        case inspect.StructType():
            return st.deferred(lambda: _struct(kind))
    return VALUES[type(kind)]


def _struct(kind: inspect.StructType) -> st.SearchStrategy[Any]:
    return st.builds(kind.cls, **{field.name: values_of(field.type) for field in kind.fields})


def structs() -> Iterator[type[msgspec.Struct]]:
    """Every message between actors, and every frame that carries them."""
    modules = [
        importlib.import_module(f"{messages.__name__}.{each.name}") for each in pkgutil.iter_modules(messages.__path__)
    ]
    for module in (frames, *modules):
        for each in vars(module).values():
            if isinstance(each, type) and issubclass(each, msgspec.Struct) and each.__module__ == module.__name__:
                yield each
    yield frames.EventFrame


def plain(value: Any) -> Any:
    """Return the value as msgpack reads it: maps, lists and scalars."""
    return msgspec.to_builtins(value, builtin_types=(bytes,))


@pytest.mark.parametrize("kind", tuple(structs()), ids=lambda kind: getattr(kind, "__name__", str(kind)))
@settings(max_examples=8, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_codecs_any_value_same_bytes(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    message = data.draw(values_of(inspect.type_info(kind)))
    encoded = frames.encode(message)
    assert msgpack.packb(plain(message)) == encoded
    assert msgpack.unpackb(encoded) == lists(plain(message))
    assert msgspec.msgpack.decode(msgpack.packb(plain(message)), type=kind) == message


def lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {lists(key): lists(each) for key, each in value.items()}
    return [lists(item) for item in value] if isinstance(value, list | tuple) else value


def test_codecs_empty_body_is_empty_map() -> None:
    assert body_of(None) == EMPTY == msgpack.packb({})


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1])
def test_codecs_integer_beyond_64_bits_is_refused(value: int) -> None:
    for encode in (frames.encode, msgpack.packb):
        with pytest.raises(OverflowError):
            encode(value)

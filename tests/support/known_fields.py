"""A plugin of mypy: `get` names a field that the TypedDict has.

Without it mypy takes `pod.get("sepc")` for an object of an unknown type, which is as good a condition as any.
"""

from collections.abc import Callable

from mypy.plugin import MethodContext, Plugin
from mypy.plugins.common import try_getting_str_literals
from mypy.plugins.default import typed_dict_get_callback
from mypy.types import Type, TypedDictType, get_proper_type


class KnownFields(Plugin):
    def get_method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        return _get if fullname == "typing.Mapping.get" else None


def _get(context: MethodContext) -> Type:
    view = get_proper_type(context.type)
    if isinstance(view, TypedDictType) and context.args[0]:
        for name in try_getting_str_literals(context.args[0][0], context.arg_types[0][0]) or ():
            if name not in view.items:
                context.api.fail(f'TypedDict "{view.fallback.type.name}" has no field "{name}"', context.context)
    return typed_dict_get_callback(context)


def plugin(version: str) -> type[Plugin]:
    return KnownFields

"""Build the resource of each served version of a definition."""

from collections.abc import Callable

from actors.apiserver.api.objects import Obj
from actors.apiserver.api.resource import STATUS_VERBS, Resource, Subresource
from actors.apiserver.custom.definitions.definition import Definition, Version
from actors.apiserver.custom.definitions.scale_rules import value_at
from actors.apiserver.custom.printing.columns import columns_of
from actors.apiserver.custom.printing.printing import format_value
from actors.apiserver.custom.serving.face import CustomConverter
from actors.apiserver.custom.serving.kind import Kind, priority
from actors.apiserver.custom.serving.strategy import CustomStrategy


def resources_of(definition: Definition) -> list[Resource]:
    versions = sorted((v for v in definition.versions if v.served), key=lambda v: priority(v.name))
    return [_row(definition, version) for version in versions]


def _row(definition: Definition, version: Version) -> Resource:
    kind, names = Kind(definition, version), definition.names
    return Resource(
        group=definition.group,
        version=version.name,
        plural=names.plural,
        kind=names.kind,
        namespaced=definition.namespaced,
        strategy=CustomStrategy(kind),
        singular=names.singular,
        columns=columns_of(version.columns),
        prefix=f"{definition.group}/{names.plural}",
        short_names=names.short,
        categories=names.categories,
        subresources=_subresources(definition, version),
        fields={path: _getter(path) for path in version.selectable},
        returns_object=False,
        versioned_update=True,
        converter=CustomConverter(kind),
        custom=kind,
        list_kind=names.list_kind,
    )


def _getter(path: str) -> Callable[[Obj], str]:
    def get(obj: Obj) -> str:
        value = value_at(obj, path)
        return "" if value is None else format_value(value)

    return get


def _subresources(definition: Definition, version: Version) -> tuple[Subresource, ...]:
    made = []
    if version.status:
        made.append(Subresource("status", STATUS_VERBS, definition.names.kind, definition.group, version.name))
    if version.scale:
        made.append(Subresource("scale", STATUS_VERBS, "Scale", "autoscaling", "v1"))
    return tuple(made)

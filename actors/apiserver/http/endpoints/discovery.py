"""Discovery documents in the two forms clients ask for: resource lists and aggregated discovery."""

from protocols.kinds.served.row import Served, Subresource, Table
from protocols.kube.meta import Object

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def core_versions(address: str) -> Object:
    """Return /api: the versions of the core group, and the server's address."""
    servers = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"], "serverAddressByClientCIDRs": servers}


def group_list(table: Table) -> Object:
    """Return /apis: all other groups with their versions."""
    groups = [_group(name, versions) for name, versions in table.versions().items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def one_group(table: Table, name: str) -> Object | None:
    """Return /apis/GROUP; None if no resource has that group."""
    versions = table.versions().get(name) if name else None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)} if versions else None


def resource_list(table: Table, group: str, version: str) -> Object | None:
    """Return the resources of one version of a group; None if nothing is served there."""
    rows = table.in_version(group, version)
    if not rows:
        return None
    resources = [entry for row in rows for entry in (_resource(row), *(_sub(row, s) for s in row.subresources))]
    group_version = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def aggregated(table: Table, core: bool) -> Object:
    """Return aggregated discovery (v2): of the core group, or of all others."""
    groups = {name: versions for name, versions in table.versions().items() if (name == "") is core}
    items = [
        {
            "metadata": {"name": name, "creationTimestamp": None},
            "versions": [_version(table, name, version) for version in versions],
        }
        for name, versions in groups.items()
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _group(name: str, versions: list[str]) -> Object:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _resource(row: Served) -> Object:
    entry: Object = {
        "name": row.plural,
        "singularName": row.singular,
        "namespaced": row.namespaced,
        "kind": row.kind,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    return entry


def _sub(row: Served, sub: Subresource) -> Object:
    entry: Object = {
        "name": f"{row.plural}/{sub.name}",
        "singularName": "",
        "namespaced": row.namespaced,
        "kind": sub.kind,
        "verbs": list(sub.verbs),
    }
    if (sub.group, sub.version) != (row.group, row.version):
        entry.update(group=sub.group, version=sub.version)
    return entry


def _version(table: Table, group: str, version: str) -> Object:
    rows = [_discovered(row) for row in table.in_version(group, version)]
    return {"version": version, "resources": rows, "freshness": "Current"}


def _discovered(row: Served) -> Object:
    entry: Object = {
        "resource": row.plural,
        "responseKind": {"group": row.group, "version": row.version, "kind": row.kind},
        "scope": "Namespaced" if row.namespaced else "Cluster",
        "singularResource": row.singular,
        "verbs": list(row.verbs),
    }
    if row.short_names:
        entry["shortNames"] = list(row.short_names)
    if row.categories:
        entry["categories"] = list(row.categories)
    if row.subresources:
        entry["subresources"] = [
            {
                "subresource": sub.name,
                "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
                "verbs": list(sub.verbs),
            }
            for sub in row.subresources
        ]
    return entry

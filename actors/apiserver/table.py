"""Every built-in resource of the API server: a kind is served because its row stands here."""

from protocols.kinds.admission import policies, webhooks
from protocols.kinds.apps import apps
from protocols.kinds.batch import batch
from protocols.kinds.cluster import api_services, certificates, priority_classes, reviews, runtime_classes
from protocols.kinds.core import config, events, limits, namespaces, nodes, quotas
from protocols.kinds.custom.definitions import definitions
from protocols.kinds.dra import devices
from protocols.kinds.pods import pods
from protocols.kinds.policy import budgets, network_policies
from protocols.kinds.rbac import rbac
from protocols.kinds.served.row import Served, Table
from protocols.kinds.services import addresses, network
from protocols.kinds.storage import attachments, volumes
from protocols.kinds.workloads import autoscaling, core

TABLE: Table = Table(
    (
        config.CONFIGMAPS,
        events.EVENTS,
        namespaces.NAMESPACES,
        nodes.NODES,
        pods.PODS,
        config.SECRETS,
        config.SERVICEACCOUNTS,
        nodes.LEASES,
        events.NEW_EVENTS,
        *devices.ROWS,
        *rbac.ROWS,
        *network.ROWS,
        *volumes.ROWS,
        priority_classes.PRIORITIES,
        runtime_classes.RUNTIMES,
        *core.ROWS,
        *apps.ROWS,
        *batch.ROWS,
        network_policies.NETWORK_POLICIES,
        budgets.BUDGETS,
        *attachments.ROWS,
        *policies.ROWS,
        *webhooks.ROWS,
        *certificates.ROWS,
        limits.LIMITRANGES,
        quotas.QUOTAS,
        *reviews.REVIEWS,
        *reviews.USAGE,
        autoscaling.AUTOSCALERS,
        *addresses.ROWS,
        api_services.REGISTRATIONS,
        definitions.DEFINITIONS,
    )
)
"""Every built-in resource of the API server."""


def served(disabled: tuple[str, ...]) -> tuple[Served, ...]:
    """Return the built-in resources without those of disabled versions."""
    return tuple(row for row in TABLE.built_in if f"{row.group}/{row.version}" not in disabled)

"""apps/v1 and core workloads: defaults, validation and what may change, as upstream's."""

from typing import Any

import pytest

from tests.support.workloads import (
    CRON,
    JOB,
    LABELS,
    SELECTED,
    TEMPLATE,
    UID,
    Object,
    body,
    create_faults,
    created,
    row_of,
    shown,
    status_faults,
    update_faults,
    with_path,
)

KINDS = ("daemonsets", "deployments", "replicasets", "statefulsets")
POD_DEFAULTS = {
    "containers": [
        {
            "name": "c",
            "image": "busybox:1",
            "imagePullPolicy": "IfNotPresent",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
    ],
    "dnsPolicy": "ClusterFirst",
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "securityContext": {},
    "terminationGracePeriodSeconds": 30,
}
PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
MISMATCH = 'spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`'


@pytest.mark.parametrize(
    ("plural", "defaults", "status"),
    [
        (
            "deployments",
            {
                "progressDeadlineSeconds": 600,
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            },
            {},
        ),
        (
            "daemonsets",
            {
                "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            },
            {"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0},
        ),
        ("replicasets", {"replicas": 1}, {"replicas": 0}),
        (
            "statefulsets",
            {
                "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
                "podManagementPolicy": "OrderedReady",
                "replicas": 1,
                "revisionHistoryLimit": 10,
                "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            },
            {"availableReplicas": 0, "replicas": 0},
        ),
    ],
)
def test_workload_defaults_equal_upstream(plural: str, defaults: Object, status: Object) -> None:
    made = created(plural, SELECTED)
    spec = dict(made["spec"])
    assert spec.pop("selector") == SELECTED["selector"]
    assert spec.pop("template") == {"metadata": {"labels": LABELS}, "spec": POD_DEFAULTS}
    assert spec == defaults
    assert made["status"] == status
    assert not create_faults(plural, SELECTED)


def test_template_has_no_defaults_of_admission() -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}, "ports": [{"containerPort": 80}]}
    spec = {"serviceAccountName": "s", "containers": [container], "hostNetwork": True}
    made = created("deployments", with_path(SELECTED, "template.spec", spec))["spec"]["template"]["spec"]
    assert made["serviceAccount"] == "s"
    assert "enableServiceLinks" not in made
    assert "tolerations" not in made
    container = made["containers"][0]
    assert container["resources"] == {"limits": {"cpu": "1"}}
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert container["imagePullPolicy"] == "Always"


def test_strategy_of_other_type_has_no_defaults() -> None:
    assert created("deployments", {**SELECTED, "strategy": {"type": "Recreate"}})["spec"]["strategy"] == {
        "type": "Recreate"
    }
    assert created("daemonsets", {**SELECTED, "updateStrategy": {"type": "OnDelete"}})["spec"]["updateStrategy"] == {
        "type": "OnDelete"
    }


def test_claim_templates_are_complete_claims() -> None:
    claim = {"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    made = created("statefulsets", {**SELECTED, "volumeClaimTemplates": [claim]})["spec"]["volumeClaimTemplates"][0]
    assert (made["apiVersion"], made["kind"], made["status"]["phase"]) == ("v1", "PersistentVolumeClaim", "Pending")
    assert made["spec"]["volumeMode"] == "Filesystem"


@pytest.mark.parametrize("plural", KINDS)
def test_template_that_the_selector_does_not_match_is_rejected(plural: str) -> None:
    assert MISMATCH in create_faults(plural, with_path(SELECTED, "selector.matchLabels.app", "b"))


@pytest.mark.parametrize("plural", KINDS)
def test_missing_selector_is_reported_with_its_mismatch(plural: str) -> None:
    needed = [] if plural == "daemonsets" else ["spec.selector: Required value"]
    assert create_faults(plural, with_path(SELECTED, "selector", None)) == [*needed, MISMATCH]


@pytest.mark.parametrize(
    ("plural", "text"),
    [
        ("daemonsets", "empty selector is invalid for daemonset"),
        ("deployments", "empty selector is invalid for deployment"),
        ("replicasets", "empty selector is invalid for deployment"),
        ("statefulsets", "empty selector is invalid for statefulset"),
    ],
)
def test_empty_selector_is_rejected(plural: str, text: str) -> None:
    assert create_faults(plural, {**SELECTED, "selector": {}}) == [f"spec.selector: Invalid value: {{}}: {text}"]


@pytest.mark.parametrize("plural", KINDS)
def test_selector_of_a_stored_workload_is_immutable(plural: str) -> None:
    old = created(plural, SELECTED)
    new = with_path(with_path(old, "spec.selector.matchLabels", {"b": "c"}), "spec.template.metadata.labels.b", "c")
    assert not create_faults(plural, new["spec"])
    text = "field is immutable" if plural != "statefulsets" else "spec: Forbidden: updates to statefulset spec"
    assert [text in fault for fault in update_faults(plural, new, old)] == [True]


@pytest.mark.parametrize(
    ("plural", "kind"),
    [
        ("daemonsets", "DaemonSet"),
        ("deployments", "ReplicaSet"),
        ("replicasets", "ReplicaSet"),
        ("statefulsets", "StatefulSet"),
    ],
)
def test_template_must_run_forever(plural: str, kind: str) -> None:
    spec = with_path(
        with_path(SELECTED, "template.spec.restartPolicy", "Never"), "template.spec.activeDeadlineSeconds", 5
    )
    path = "spec.template.spec"
    assert create_faults(plural, spec) == [
        f'{path}.restartPolicy: Unsupported value: "Never": supported values: "Always"',
        f"{path}.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in {kind} is not Supported",
    ]


def test_template_has_the_rules_of_a_pod_at_its_own_path() -> None:
    spec = with_path(SELECTED, "template.spec.containers", [{"name": "c"}, {"name": "c", "image": "i"}])
    assert create_faults("deployments", spec) == [
        "spec.template.spec.containers[0].image: Required value",
        'spec.template.spec.containers[1].name: Duplicate value: "c"',
    ]
    ephemeral = with_path(SELECTED, "template.spec.ephemeralContainers", [{"name": "d", "image": "i"}])
    text = "ephemeral containers not allowed in pod template"
    assert create_faults("deployments", ephemeral) == [f"spec.template.spec.ephemeralContainers: Forbidden: {text}"]


ROLLING = "spec.strategy.rollingUpdate"


@pytest.mark.parametrize(
    ("unavailable", "surge", "faults"),
    [
        (1, 0, []),
        ("100%", 0, []),
        (0, "30%", []),
        (0, 0, ["maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"]),
        ("0%", "0%", ['maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0']),
        ("9" * 5000 + "%", 0, [f'maxUnavailable: Invalid value: "{"9" * 999}...: must not be greater than 100%']),
        ("101%", 0, ['maxUnavailable: Invalid value: "101%": must not be greater than 100%']),
        (1, "200%", []),
        (-1, 1, ["maxUnavailable: Invalid value: -1: must be greater than or equal to 0"]),
        ("1.5%", 1, [f'maxUnavailable: Invalid value: "1.5%": {PERCENT}']),
        (1, "few", [f'maxSurge: Invalid value: "few": {PERCENT}']),
    ],
)
def test_deployment_rolling_update_bounds(unavailable: Any, surge: Any, faults: list[str]) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}
    found = create_faults("deployments", {**SELECTED, "strategy": strategy})
    assert found == [f"{ROLLING}.{fault}" for fault in faults]


def test_deployment_recreated_has_no_rolling_update() -> None:
    strategy = {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}
    text = "may not be specified when strategy `type` is 'Recreate'"
    assert create_faults("deployments", {**SELECTED, "strategy": strategy}) == [f"{ROLLING}: Forbidden: {text}"]
    found = create_faults("deployments", {**SELECTED, "strategy": {"type": "Some"}})
    value = '{"Type":"Some","RollingUpdate":null}'
    assert found == [f'spec.strategy: Unsupported value: {value}: supported values: "Recreate", "RollingUpdate"']


def test_deployment_deadline_exceeds_its_ready_seconds() -> None:
    spec = {**SELECTED, "minReadySeconds": 10, "progressDeadlineSeconds": 10}
    text = "must be greater than minReadySeconds"
    assert create_faults("deployments", spec) == [f"spec.progressDeadlineSeconds: Invalid value: 10: {text}"]


@pytest.mark.parametrize(
    ("unavailable", "surge", "faults"),
    [
        (1, 0, []),
        (0, "10%", []),
        (1, 1, ["maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"]),
        (0, 0, ["maxUnavailable: Required value: cannot be 0 when maxSurge is 0"]),
        (0, "101%", ['maxSurge: Invalid value: "101%": must not be greater than 100%']),
    ],
)
def test_daemon_set_rolling_update_has_one_of_both(unavailable: Any, surge: Any, faults: list[str]) -> None:
    strategy = {"rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge}}
    found = create_faults("daemonsets", {**SELECTED, "updateStrategy": strategy})
    assert found == [f"spec.updateStrategy.rollingUpdate.{fault}" for fault in faults]


def test_image_volume_of_a_template_may_lack_its_reference() -> None:
    template = with_path(SELECTED, "template.spec.volumes", [{"name": "v", "image": {}}])
    assert create_faults("deployments", template) == []


def test_daemon_set_counts_its_templates() -> None:
    number = "deprecated.daemonset.template.generation"
    old = created("daemonsets", SELECTED)
    assert old["metadata"]["annotations"] == {number: "1"}
    strategy = row_of("daemonsets").strategy
    same = with_path(old, "metadata.annotations", None)
    strategy.prepare_update(same, old)
    assert same["metadata"]["annotations"] == {number: "1"}
    new = with_path(old, "spec.template.spec.hostPID", True)
    strategy.prepare_update(new, old)
    assert new["metadata"]["annotations"] == {number: "2"}


def test_generation_of_a_deployment_counts_annotations() -> None:
    old = created("deployments", SELECTED)
    strategy = row_of("deployments").strategy
    assert strategy.bumps_generation(with_path(old, "metadata.annotations", {"a": "b"}), old)
    assert not strategy.bumps_generation(with_path(old, "metadata.labels", {"a": "b"}), old)
    assert not row_of("replicasets").strategy.bumps_generation(with_path(old, "metadata.annotations", {"a": "b"}), old)


@pytest.mark.parametrize(
    ("field", "value", "accepted"),
    [
        ("replicas", 3, True),
        ("minReadySeconds", 1, True),
        ("revisionHistoryLimit", 1, True),
        ("serviceName", "other", False),
        ("podManagementPolicy", "Parallel", False),
    ],
)
def test_stateful_set_update_is_limited_to_some_fields(field: str, value: Any, accepted: bool) -> None:
    old = created("statefulsets", SELECTED)
    found = update_faults("statefulsets", with_path(old, f"spec.{field}", value), old)
    assert [fault.partition(" for fields")[0] for fault in found] == (
        [] if accepted else ["spec: Forbidden: updates to statefulset spec"]
    )


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("podManagementPolicy", "Some", "Invalid value: \"Some\": must be 'OrderedReady' or 'Parallel'"),
        (
            "updateStrategy",
            {"type": "A"},
            'Invalid value: {"Type":"A","RollingUpdate":null}: must be \'RollingUpdate\' or \'OnDelete\'',
        ),
        ("replicas", -1, "Invalid value: -1: must be greater than or equal to 0"),
    ],
)
def test_stateful_set_policies(field: str, value: Any, fault: str) -> None:
    assert create_faults("statefulsets", {**SELECTED, field: value}) == [f"spec.{field}: {fault}"]


def test_stateful_set_name_is_a_label() -> None:
    assert 'metadata.name: Invalid value: "a.b"' in create_faults("statefulsets", SELECTED, name="a.b")[0]
    old = created("statefulsets", SELECTED, name="a.b")
    assert update_faults("statefulsets", old, old) == []


@pytest.mark.parametrize(
    ("plural", "spec", "template"),
    [
        *((plural, SELECTED, "spec.template") for plural in KINDS),
        ("replicationcontrollers", {"template": TEMPLATE}, "spec.template"),
        ("jobs", JOB, "spec.template"),
        ("cronjobs", CRON, "spec.jobTemplate.spec.template"),
    ],
)
def test_template_that_is_older_than_a_rule_is_no_fault_of_an_update(plural: str, spec: Object, template: str) -> None:
    old = with_path(created(plural, spec), f"{template}.spec.hostname", "no label")
    assert len(create_faults(plural, old["spec"])) == 1
    assert update_faults(plural, with_path(old, "metadata.labels", LABELS), old) == []
    faults = update_faults(plural, with_path(old, f"{template}.spec.subdomain", "no label"), old)
    assert [fault.partition(":")[0] for fault in faults] == {
        "jobs": [f"{template}.spec.subdomain", template],
        "statefulsets": [],
    }.get(plural, [f"{template}.spec.subdomain"])


LESS = "cannot be greater than status.replicas"


def test_stateful_set_mounts_volumes_of_its_claims() -> None:
    mounts = [{"name": "data", "mountPath": "/data"}]
    spec = with_path(SELECTED, "template.spec.containers", [{"name": "c", "image": "i", "volumeMounts": mounts}])
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claimed = {**spec, "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}]}
    assert create_faults("statefulsets", claimed) == []
    missing = 'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"'
    assert create_faults("statefulsets", spec) == [missing]
    old = created("statefulsets", spec)
    assert update_faults("statefulsets", with_path(old, "spec.replicas", 2), old) == []


def test_stateful_set_claims_are_checked_as_claims_and_volumes() -> None:
    faults = create_faults("statefulsets", {**SELECTED, "volumeClaimTemplates": [{"spec": {"accessModes": ["Any"]}}]})
    assert [fault.partition(": ")[0] for fault in faults] == [
        "spec.volumeClaimTemplates[0].spec.accessModes",
        "spec.volumeClaimTemplates[0].spec.resources[storage]",
        "spec.template.spec.volumes[0].persistentVolumeClaim.claimName",
        "spec.template.spec.volumes[0].name",
    ]


@pytest.mark.parametrize("plural", ["deployments", "replicasets", "statefulsets"])
def test_selector_that_cannot_be_parsed_is_no_selector(plural: str) -> None:
    faults = create_faults(plural, with_path(SELECTED, "selector.matchLabels", {"-a": "x"}))
    assert [fault.partition(": ")[0] for fault in faults[:2]] == ["spec.selector.matchLabels", "spec.selector"]


def test_stateful_set_service_is_a_label() -> None:
    assert create_faults("statefulsets", {**SELECTED, "serviceName": "svc"}) == []
    assert (
        "spec.serviceName: Invalid value" in create_faults("statefulsets", {**SELECTED, "serviceName": "No_Label"})[0]
    )


@pytest.mark.parametrize(
    ("plural", "status", "fault"),
    [
        ("deployments", {"replicas": 1, "readyReplicas": 2}, f"readyReplicas 2 {LESS}"),
        ("deployments", {"replicas": 1, "updatedReplicas": 2}, f"updatedReplicas 2 {LESS}"),
        (
            "deployments",
            {"replicas": 2, "availableReplicas": 2},
            "availableReplicas 2 cannot be greater than readyReplicas",
        ),
        ("daemonsets", {"numberReady": -1}, "numberReady -1 must be greater than or equal to 0"),
        ("replicasets", {"replicas": 1, "fullyLabeledReplicas": 2}, f"fullyLabeledReplicas 2 {LESS}"),
        (
            "statefulsets",
            {"replicas": 2, "availableReplicas": 1},
            "availableReplicas 1 cannot be greater than status.readyReplicas",
        ),
        ("daemonsets", {"collisionCount": 1}, "collisionCount 1 cannot be decremented"),
    ],
)
def test_status_counts_fit_each_other(plural: str, status: Object, fault: str) -> None:
    old = with_path(created(plural, SELECTED), "status.collisionCount", 2)
    field, value, text = fault.split(" ", 2)
    found = status_faults(plural, {**old, "status": {"collisionCount": 2, **status}}, old)
    assert found == [f"status.{field}: Invalid value: {value}: {text}"]


def test_replication_controller_takes_selector_and_labels_from_its_template() -> None:
    made = created("replicationcontrollers", {"template": TEMPLATE})
    assert made["spec"]["selector"] == made["metadata"]["labels"] == LABELS
    assert made["spec"]["replicas"] == 1
    assert made["status"] == {"replicas": 0}
    assert create_faults("replicationcontrollers", {}) == [
        "spec.selector: Required value",
        "spec.template: Required value",
    ]


def test_template_object_is_defaulted_and_counts_its_changes() -> None:
    row = row_of("podtemplates")
    made = {**body("podtemplates", {}), "template": TEMPLATE}
    made.pop("spec")
    row.strategy.default(made)
    assert made["template"]["spec"]["restartPolicy"] == "Always"
    assert row.strategy.validate_create(made) == []
    assert row.strategy.bumps_generation(with_path(made, "template.spec.hostPID", True), made)
    found = shown(row.strategy.validate_create({**made, "template": {"spec": {"containers": []}}}))
    assert "template.spec.containers: Required value" in found


def test_revision_data_is_immutable() -> None:
    strategy = row_of("controllerrevisions").strategy
    old = {"metadata": {"name": "x", "uid": UID}, "data": {"a": 1}, "revision": 1}
    assert strategy.validate_create(old) == []
    assert shown(strategy.validate_create({**old, "data": None, "revision": -1})) == [
        "data: Required value: data is mandatory",
        "revision: Invalid value: -1: must be greater than or equal to 0",
    ]
    assert strategy.validate_update({**old, "revision": 2}, old) == []
    assert shown(strategy.validate_update({**old, "data": {}}, old)) == ["data: Invalid value: {}: field is immutable"]
    assert len(strategy.validate_update({**old, "data": {"a": True}}, old)) == 1

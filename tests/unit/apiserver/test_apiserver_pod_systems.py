"""What a pod shares with its host, by users and system."""

from typing import Any

import pytest

from tests.support.pod_faults import faults

Object = dict[str, Any]
UNMASKED, WINDOWS = {"securityContext": {"procMount": "Unmasked"}}, {"name": "windows"}


def user(name: str) -> Object:
    return {"securityContext": {"windowsOptions": {"runAsUserName": name}}}


@pytest.mark.parametrize(
    ("container", "spec", "found"),
    [
        ({}, {"securityContext": {"sysctls": [{"name": "a.b"}, {"name": "a/b"}]}}, []),
        (UNMASKED, {}, ["Invalid containers[0].securityContext.procMount"]),
        (UNMASKED, {"hostUsers": False}, []),
        (
            {},
            {"hostUsers": False, "hostPID": True, "hostNetwork": True},
            ["Forbidden hostNetwork", "Forbidden HostPID"],
        ),
        ({}, {"hostnameOverride": "a.b"}, []),
        ({}, {"hostnameOverride": "A" * 65}, ["TooLong hostnameOverride", "Invalid hostnameOverride"]),
        ({}, {"hostnameOverride": "a", "setHostnameAsFQDN": True}, ["Forbidden hostnameOverride"]),
        (user("a"), {"os": WINDOWS}, []),
        (user("a"), {"os": {"name": "linux"}}, ["Forbidden containers[0].securityContext.windowsOptions"]),
        (
            {"securityContext": {"privileged": False}},
            {"os": WINDOWS},
            ["Forbidden containers[0].securityContext.privileged"],
        ),
        ({}, {"os": WINDOWS, "securityContext": {"fsGroup": 1}}, ["Forbidden securityContext.fsGroup"]),
        ({}, {"securityContext": {"windowsOptions": {"hostProcess": True}}}, ["Invalid hostNetwork"]),
        ({}, {"hostNetwork": True, "securityContext": {"windowsOptions": {"hostProcess": True}}}, []),
        *((user(name), {}, []) for name in ("NT AUTHORITY\\SYSTEM", "a.example\\u")),
        *(
            (user(name), {}, ["Invalid containers[0].securityContext.windowsOptions.runAsUserName"])
            for name in ("", "a\n", "a\\b\\c", ".a_\\u", "a\\", "..", "a@b", "u" * 105)
        ),
    ],
)
def test_what_a_pod_shares_with_its_host_depends_on_users_and_system(
    container: Object, spec: Object, found: list[str]
) -> None:
    assert faults(container, **spec) == found

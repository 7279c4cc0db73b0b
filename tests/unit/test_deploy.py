"""The manifests in deploy/ agree with the command they run."""

from pathlib import Path

import yaml

from supervisor.base.settings import pod_resources
from supervisor.cli.flags import Parser, plane_options
from supervisor.cli.start import add_parser

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_daemonset_runs_a_command_that_exists_and_mounts_what_it_names() -> None:
    *_, daemonset = yaml.safe_load_all((DEPLOY / "adopt-daemonset.yaml").read_text())
    spec = daemonset["spec"]["template"]["spec"]
    [container] = spec["containers"]
    parser = Parser(prog="nodeplane")
    add_parser(parser.add_subparsers(parser_class=Parser))
    args = parser.parse_args(container["args"])
    options = plane_options(args, {})
    assert pod_resources(options).health_address == "0.0.0.0:9356"
    assert options.metrics_port == container["ports"][0]["containerPort"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["grpc"]["port"] == container["ports"][1]["containerPort"]
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    paths = (args.pod_resources, args.cri.removeprefix("unix://"), args.socket, f"{options.root}/x")
    for path in paths:
        assert any(path.startswith(f"{mount}/") for mount in mounts), path
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}
    assert spec["automountServiceAccountToken"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert "privileged" not in container["securityContext"]

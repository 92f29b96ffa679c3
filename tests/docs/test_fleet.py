"""The files of `examples/fleet`: the plan is a plan, and SkyPilot and KubeRay take the others."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from mindgap_campaign.campaign.plan import read_plan
from mindgap_campaign.cluster.connection import resource_of

FLEET = Path(__file__).parents[2] / "examples" / "fleet"
#: A Python in which SkyPilot is installed: it wants other versions of packages than mindgap does.
SKYPILOT = os.environ.get("SKYPILOT_PYTHON", "")
#: The folder `helm-chart/kuberay-operator/crds` of KubeRay's repository.
CRDS = os.environ.get("KUBERAY_CRDS", "")

PARSE = """
import sys
from sky.utils import dag_utils
dag = dag_utils.load_job_group_from_yaml(sys.argv[1], env_overrides=[("STORE", "s3://bucket/name")])
for task in dag.tasks:
    (resources,) = task.resources
    print(task.name, resources.cloud, resources.instance_type, task.envs["STORE"])
"""


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FLEET / name).read_text(encoding="utf-8")))


def test_five_unlike_machines_run_one_script() -> None:
    header, *tasks = documents("sky.yaml")
    assert header["execution"] == "parallel" and len(tasks) == 5
    assert len({task["name"] for task in tasks}) == len({task["resources"]["instance_type"] for task in tasks}) == 5
    for task in tasks:
        for step in ("setup", "run"):
            _, script, _ = task[step].split()
            assert subprocess.run(["bash", "-n", FLEET.parents[1] / script]).returncode == 0


def test_every_platform_of_the_plan_is_a_resource_of_some_node() -> None:
    plan, _ = read_plan(FLEET / "campaign.toml")
    (job,) = documents("rayjob.yaml")
    groups = job["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    # KubeRay wants JSON in quotes of a shell.
    offered = {name for group in groups for name in json.loads(json.loads(group["rayStartParams"]["resources"]))}
    assert offered == {resource_of(platform) for platform in (plan.reference, *plan.platforms)}


@pytest.mark.nightly
@pytest.mark.skipif(not SKYPILOT, reason="SKYPILOT_PYTHON names no Python with SkyPilot")
def test_skypilot_parses_the_job_group() -> None:
    ran = subprocess.run(
        [SKYPILOT, "-c", PARSE, FLEET / "sky.yaml"], capture_output=True, text=True, cwd=FLEET.parents[1]
    )
    assert ran.returncode == 0, ran.stderr
    parsed = [line for line in ran.stdout.splitlines() if line.endswith(" s3://bucket/name")]
    assert len(parsed) == 5 and parsed[0] == "broadwell AWS m4.large s3://bucket/name"


@pytest.mark.nightly
@pytest.mark.skipif(not CRDS, reason="KUBERAY_CRDS names no folder of KubeRay's resource definitions")
def test_the_ray_job_fits_its_definition() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    definition = yaml.safe_load(Path(CRDS, "ray.io_rayjobs.yaml").read_text(encoding="utf-8"))
    schema = next(each["schema"]["openAPIV3Schema"] for each in definition["spec"]["versions"] if each["name"] == "v1")
    (job,) = documents("rayjob.yaml")
    jsonschema.validate(job, _strict(schema))


def _strict(schema: Any) -> Any:
    """The schema without keys that it does not name, as an API server checks it (`fieldValidation=Strict`)."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    known = {key: _strict(each) for key, each in schema.items()}
    if "properties" in schema and "metadata" not in schema["properties"]:
        known.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    return known

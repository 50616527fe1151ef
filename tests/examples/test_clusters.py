"""The files for clusters, as far as a machine without one can try them."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

CLUSTER = Path(__file__).parents[2] / "examples" / "cluster"


@pytest.fixture
def load(monkeypatch):
    """Import one of the files by name; they import each other by name, as scripts do."""
    monkeypatch.syspath_prepend(str(CLUSTER))
    return importlib.import_module


@pytest.mark.parametrize("path", sorted(CLUSTER.glob("*.py")), ids=lambda path: path.name)
def test_programs_are_python(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)


def test_the_job_of_the_driver_is_a_shell_script():
    subprocess.run(["bash", "-n", CLUSTER / "slurm.sh"], check=True)
    options = [line.split("=")[0] for line in (CLUSTER / "slurm.sh").read_text().splitlines() if "SBATCH" in line]
    assert options[0] == "#SBATCH --job-name"
    assert "python slurm.py" in (CLUSTER / "slurm.sh").read_text()


def test_the_objects_of_kubernetes_fit_each_other():
    yaml = pytest.importorskip("yaml")
    claim, job = yaml.safe_load_all((CLUSTER / "kubernetes.yaml").read_text())
    assert (claim["kind"], job["kind"]) == ("PersistentVolumeClaim", "DaskJob")
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    cluster = job["spec"]["cluster"]["spec"]
    pods = [job["spec"]["job"]["spec"], cluster["worker"]["spec"], cluster["scheduler"]["spec"]]
    for pod, name in zip(pods, ("job", "worker", "scheduler"), strict=True):
        (container,) = pod["containers"]
        assert container["name"] == name
        assert all(isinstance(word, str) for word in container["args"])
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        assert {mount["name"] for mount in container.get("volumeMounts", [])} == volumes
    (volume,) = pods[1]["volumes"]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    program, folder, workers = pods[0]["containers"][0]["args"][1:]
    assert (CLUSTER / program).exists()
    assert folder.startswith(pods[0]["containers"][0]["volumeMounts"][0]["mountPath"])
    assert int(workers) == cluster["worker"]["replicas"]
    ports = {port["name"] for port in pods[2]["containers"][0]["ports"]}
    assert {port["targetPort"] for port in cluster["scheduler"]["service"]["ports"]} == ports
    assert cluster["scheduler"]["service"]["selector"]["dask.org/cluster-name"] == job["metadata"]["name"]
    copied = (CLUSTER / "Dockerfile").read_text()
    assert program in copied
    assert "work.py" in copied


def test_the_jobs_of_workers(load, tmp_path, monkeypatch):
    """As dask-jobqueue writes them, where it is installed."""
    jobqueue = pytest.importorskip("dask_jobqueue", reason="there is no dask-jobqueue")
    monkeypatch.chdir(tmp_path)  # where it makes the folder of logs
    machine = load("slurm").MACHINE
    with jobqueue.SLURMCluster(**machine, scheduler_options={"dashboard_address": ":0"}) as cluster:
        script = cluster.job_script()
    for line in (
        "#SBATCH -p cpu",
        "#SBATCH --cpus-per-task=4",
        "#SBATCH -t 04:00:00",
        "--lifetime 235m",
        "--nworkers 4",
    ):
        assert line in script


@pytest.mark.slow
def test_the_work_begins_and_goes_on(load, cluster, tmp_path):
    """With processes of this machine in place of SLURM's."""
    work = load("work")
    work.prepare(tmp_path, rows=2000, documents=200)
    cluster.run(sys.path.insert, 0, str(CLUSTER))
    settings = {"number": 2, "num_samples": 100, "report": False}
    trace = work.chains(cluster.get_executor(), tmp_path, **settings)
    again = work.chains(cluster.get_executor(), tmp_path, **settings)
    np.testing.assert_array_equal(trace.posterior["theta"], again.posterior["theta"])
    model = work.topics(cluster, tmp_path, shards=2, max_iter=6)
    np.testing.assert_array_equal(model.components_, work.topics(cluster, tmp_path).components_)


@pytest.mark.slow
def test_slurm_with_another_cluster(load, tmp_path, monkeypatch, capsys):
    distributed = pytest.importorskip("distributed", reason="it is in the extra cluster")
    slurm, work = load("slurm"), load("work")
    local = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    monkeypatch.setattr(slurm, "slurm_cluster", lambda: distributed.LocalCluster(**local))
    monkeypatch.setattr(slurm, "work", lambda client, folder: print(sum(client.nthreads().values()), folder))
    slurm.main(str(tmp_path), 1)
    assert capsys.readouterr().out == f"1 {tmp_path}\n"
    assert callable(work.work)

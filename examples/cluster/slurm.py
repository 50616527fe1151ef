"""With SLURM: ``sbatch slurm.sh``, which runs ``python slurm.py FOLDER WORKERS`` in a job of its own.

The workers are further jobs, which dask-jobqueue submits: pip install 'scirocco[cluster]' dask-jobqueue
"""

import sys

from distributed import Client
from work import work

MACHINE = {
    "queue": "cpu",  # a partition of yours (sinfo)
    "walltime": "04:00:00",
    "cores": 4,  # of a job, which has as many processes: one for each chain or shard
    "processes": 4,
    "memory": "16GB",  # of a job
    "local_directory": "/tmp",  # of the machine itself: nothing that lasts goes there
    "log_directory": "logs",
    # Workers end before their job does, so that their chains are saved and go to others
    "worker_extra_args": ["--lifetime", "235m", "--lifetime-stagger", "4m"],
    # A core each: JAX and Numba would take them all
    "job_script_prologue": ["export OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1", "source venv/bin/activate"],
    "python": "python",
}


def slurm_cluster():
    """One whose jobs SLURM begins."""
    from dask_jobqueue import SLURMCluster

    return SLURMCluster(**MACHINE)


def main(folder, workers):
    """The driver: it ends with its job, and goes on where it was when the job is submitted again."""
    with slurm_cluster() as cluster, Client(cluster) as client:
        cluster.adapt(minimum=1, maximum=workers)  # a job that ends or never begins is asked for again
        client.wait_for_workers(1)
        work(client, folder)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

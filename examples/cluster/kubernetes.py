"""On Kubernetes: the program of the job in kubernetes.yaml, ``python kubernetes.py FOLDER WORKERS``."""

import sys

from distributed import Client
from work import work

if __name__ == "__main__":
    with Client() as client:  # the operator says where the scheduler is (DASK_SCHEDULER_ADDRESS)
        client.wait_for_workers(int(sys.argv[2]))
        work(client, sys.argv[1])

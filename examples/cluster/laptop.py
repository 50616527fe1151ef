"""On a laptop: ``python laptop.py FOLDER``. Begin here: what runs with two processes runs with two hundred."""

import sys

from distributed import Client, LocalCluster
from work import work

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1) as cluster, Client(cluster) as client:
        work(client, sys.argv[1])

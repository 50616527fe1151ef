"""With MPI: ``mpiexec -n 9 python -m mpi4py.futures mpi.py FOLDER`` is a driver and eight workers (pip install mpi4py).

For chains alone: documents on workers need Dask. A process that dies ends all of them; begin the same job again.
"""

import sys
from pathlib import Path

from mpi4py.futures import MPIPoolExecutor
from work import chains, prepare

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    prepare(folder)
    with MPIPoolExecutor() as executor:
        print(chains(executor, folder).verdict())

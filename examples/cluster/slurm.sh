#!/bin/bash
#SBATCH --job-name=scirocco
#SBATCH --partition=cpu
#SBATCH --time=24:00:00
#SBATCH --cpus-per-task=1
#SBATCH --mem=4G
#SBATCH --output=logs/driver-%j.out
# mkdir -p logs before it is submitted. Five minutes before the end the driver is told to stop, writes a checkpoint, and the job begins again
#SBATCH --signal=B:TERM@300
#SBATCH --requeue

source venv/bin/activate
folder=${1:-$PWD/runs} # on storage that all machines share

python slurm.py "$folder" 32 &
driver=$!
trap 'kill -TERM $driver; wait $driver; scontrol requeue $SLURM_JOB_ID' TERM
wait $driver

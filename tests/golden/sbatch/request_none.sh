#!/bin/bash

# Parameters
#SBATCH --cpus-per-task=4
#SBATCH --dependency=singleton
#SBATCH --job-name=run
#SBATCH --mem=0
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --open-mode=append
#SBATCH --output=/scratch/runs/run/submitit/%j_0_log.out
#SBATCH --requeue
#SBATCH --signal=USR2@120
#SBATCH --time=1440
#SBATCH --wckey=submitit

# setup
export AIAYN_COMMIT=abc+dirty
export OMP_NUM_THREADS=3
export PYTHONSAFEPATH=1
export PYTHONPATH=/scratch/runs/code/0123456789abcdef${PYTHONPATH:+:$PYTHONPATH}

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output /scratch/runs/run/submitit/%j_%t_log.out --kill-on-bad-exit=1 --cpus-per-task=4 --open-mode=append PYTHON -u -m submitit.core._submit /scratch/runs/run/submitit

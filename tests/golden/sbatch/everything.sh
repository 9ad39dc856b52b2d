#!/bin/bash

# Parameters
#SBATCH --account=nmt
#SBATCH --constraint='a100&nvlink'
#SBATCH --cpus-per-task=6
#SBATCH --dependency=singleton
#SBATCH --exclusive
#SBATCH --gpus-per-node=a100:4
#SBATCH --job-name=run
#SBATCH --mem=200GB
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --open-mode=append
#SBATCH --output=/scratch/runs/run/submitit/%j_0_log.out
#SBATCH --partition=gpu
#SBATCH --qos=long
#SBATCH --requeue
#SBATCH --reservation='week end'
#SBATCH --signal=USR2@90
#SBATCH --time=600
#SBATCH --wckey=paper

# setup
rm -f /scratch/runs/run/submitit/"$SLURM_JOB_ID"_prologue.txt  # of this job before it was requeued
aiayn_fail() {
    printf '%s\n' "prologue of cluster $1, on $HOSTNAME: this line ended the job, with exit code $3; correct it in the cluster's file, or add '|| true' if it may fail: $4" | tee "$2" >&2
    exit 78
}
eval 'module load cuda/12.4' || aiayn_fail plain /scratch/runs/run/submitit/"$SLURM_JOB_ID"_prologue.txt $? 'module load cuda/12.4'
eval 'export NCCL_SOCKET_IFNAME=ib0' || aiayn_fail plain /scratch/runs/run/submitit/"$SLURM_JOB_ID"_prologue.txt $? 'export NCCL_SOCKET_IFNAME=ib0'
unset -f aiayn_fail
export AIAYN_COMMIT=abc+dirty
export OMP_NUM_THREADS=3
export PYTHONSAFEPATH=1
export PYTHONPATH=/scratch/runs/code/0123456789abcdef${PYTHONPATH:+:$PYTHONPATH}

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output /scratch/runs/run/submitit/%j_%t_log.out --kill-on-bad-exit=1 --cpus-per-task=6 --open-mode=append PYTHON -u -m submitit.core._submit /scratch/runs/run/submitit

#!/bin/bash

# Parameters
#SBATCH --cpus-per-task=4
#SBATCH --dependency=singleton
#SBATCH --gpus-per-node=8
#SBATCH --job-name=run
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=8
#SBATCH --open-mode=append
#SBATCH --output=/scratch/runs/run/submitit/%j_0_log.out
#SBATCH --requeue
#SBATCH --signal=USR2@120
#SBATCH --time=1440
#SBATCH --wckey=submitit

# setup
rm -f /scratch/runs/run/submitit/"$SLURM_JOB_ID"_prologue.txt  # of this job before it was requeued
aiayn_fail() {
    printf '%s\n' "prologue of cluster $1, on $HOSTNAME: this line ended the job, with exit code $3; correct it in the cluster's file, or add '|| true' if it may fail: $4" | tee "$2" >&2
    exit 78
}
eval 'module purge' || aiayn_fail plain /scratch/runs/run/submitit/"$SLURM_JOB_ID"_prologue.txt $? 'module purge'
eval 'module load slurm' || aiayn_fail plain /scratch/runs/run/submitit/"$SLURM_JOB_ID"_prologue.txt $? 'module load slurm'
eval 'if [ -d /raid ]; then
    export TMPDIR=/raid/tmp
fi' || aiayn_fail plain /scratch/runs/run/submitit/"$SLURM_JOB_ID"_prologue.txt $? 'if [ -d /raid ]; then
    export TMPDIR=/raid/tmp
fi'
unset -f aiayn_fail
export AIAYN_COMMIT=abc+dirty
export OMP_NUM_THREADS=3
export PYTHONSAFEPATH=1
export PYTHONPATH=/scratch/runs/code/0123456789abcdef${PYTHONPATH:+:$PYTHONPATH}

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output /scratch/runs/run/submitit/%j_%t_log.out --kill-on-bad-exit=1 --cpus-per-task=4 --open-mode=append --container-image=/images/attention.sqsh '--container-mounts=/scratch:/scratch,/home/my data:/data' --container-workdir=/scratch/attention --container-env=PYTHONPATH --no-container-mount-home python3 -u -m submitit.core._submit /scratch/runs/run/submitit

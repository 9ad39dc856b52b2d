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
# the cluster's prologue: a line that fails ends the job
aiayn_cluster=plain
aiayn_note=/scratch/runs/run/submitit/"$SLURM_JOB_ID"_prologue.txt
aiayn_line=
rm -f "$aiayn_note"  # of this job before it was requeued
aiayn_fail() {
    [ "$2" -eq 1 ] || return 0
    if [ -z "$aiayn_line" ] || [ "$1" -eq 143 ]; then exit "$1"; fi
    aiayn_told="prologue of cluster $aiayn_cluster, on $HOSTNAME: this line ended the job, with exit code $1; correct it in the cluster's file, or add '|| true' if it may fail: $aiayn_line"
    aiayn_line=
    printf '%s\n' "$aiayn_told" >&2
    printf '%s\n' "$aiayn_told" > "$aiayn_note"
    exit 78
}
trap 'aiayn_fail $? "${#BASH_SOURCE[@]}"' ERR
trap 'aiayn_fail $? 1' EXIT
trap 'aiayn_fail 143 1' TERM
aiayn_line='module purge'
eval "$aiayn_line"
aiayn_line='module load slurm'
eval "$aiayn_line"
aiayn_line='if [ -d /raid ]; then
    export TMPDIR=/raid/tmp
fi'
eval "$aiayn_line"
for aiayn_trap in ERR EXIT TERM; do
    case $(trap -p "$aiayn_trap") in *aiayn_fail*) trap - "$aiayn_trap" ;; esac
done
unset -f aiayn_fail
unset aiayn_cluster aiayn_line aiayn_note aiayn_trap
# end of the prologue
export AIAYN_COMMIT=abc+dirty
export OMP_NUM_THREADS=3
export PYTHONSAFEPATH=1
export PYTHONPATH=/scratch/runs/code/0123456789abcdef${PYTHONPATH:+:$PYTHONPATH}

# command
export SUBMITIT_EXECUTOR=slurm
srun --unbuffered --output /scratch/runs/run/submitit/%j_%t_log.out --kill-on-bad-exit=1 --cpus-per-task=4 --open-mode=append --container-image=/images/attention.sqsh '--container-mounts=/scratch:/scratch,/home/my data:/data' --container-workdir=/scratch/attention --container-env=PYTHONPATH --no-container-mount-home python3 -u -m submitit.core._submit /scratch/runs/run/submitit

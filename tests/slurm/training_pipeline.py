"""A pipeline whose trainings are real ones of a scene, by the rule's own drivers. All else that it
calls is a fake.
"""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

from tests.pipeline_copy import FAKE_AIAYN, Pipeline
from tests.records_factory import write_sealed
from tests.slurm.fault_scene import CHECKOUT, LONGEST_WAIT_SECONDS, Scene
from tests.slurm.snakemake_run import make_slurm_pipeline

BINARIZED = "results/demo/binarize/demo_en_de/record.json"


def trained_record(seed: int) -> str:
    """Return the target of a training."""
    return f"results/demo/train/demo_en_de/base/seed{seed}.json"


def make_training_pipeline(scene: Scene) -> Pipeline:
    """Make a copy of the checkout in which all is made that the scene's trainings need, and let
    them lie there.
    """
    settings_path = scene.write_settings()
    pipeline = make_slurm_pipeline(scene.folder / "pipeline")
    scene.runs_folder = pipeline.checkout / "runs"
    ready_path = pipeline.fake_folder / "ready" / BINARIZED
    ready_path.parent.mkdir(parents=True)
    record = json.loads((Path(scene.data.folder).parent / "record.json").read_bytes())
    # The fake copies the record, but not the folder of the data-bin next to it.
    record["folder"] = str(Path(scene.data.folder).absolute())
    record["corpus"] = "demo_en_de"  # the corpus of the rules, which `train` compares with it
    write_sealed(json.dumps(record), ready_path)
    python, fake = shlex.quote(sys.executable), shlex.quote(str(FAKE_AIAYN))
    path = shlex.quote(os.pathsep.join([str(CHECKOUT / "workflow"), str(CHECKOUT)]))
    (pipeline.fake_folder / "bin" / "aiayn").write_text(
        "#!/bin/sh\n"
        f'[ "$1" = train ] || exec {python} -IS {fake} "$@"\n'
        f"export PYTHONPATH={path} OMP_NUM_THREADS=1\n"
        f'exec {python} -m tests.slurm.train_command {shlex.quote(str(settings_path))} -- "$@"\n'
    )
    prepared = subprocess.run(
        [sys.executable, "-m", "snakemake", BINARIZED, "--cores", "2", *pipeline.arguments],
        cwd=pipeline.checkout,
        env=pipeline.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=LONGEST_WAIT_SECONDS,
    )
    assert prepared.returncode == 0, prepared.stdout
    return pipeline

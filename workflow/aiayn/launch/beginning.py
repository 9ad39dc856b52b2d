"""Lets a training begin at the last checkpoint of a shorter training that has the same model, seed
and data.

The learning rate of the paper's equation (3) does not depend on the total number of updates. So the
first 8,000 updates of a training of 16,000 updates are the same as a training of 8,000 updates. In
the file of a system, the key `begins_from` is the system with the shorter training. The record of
the longer training contains the run of the shorter training and its last update.
"""

import logging
import shutil
from pathlib import Path

import msgspec

from aiayn.errors import ConfigError, LaunchError
from aiayn.provenance import replace_on_success
from aiayn.records import Beginning, BinarizedCorpus, TrainRecord
from aiayn.runs.run_folder import RunFolder
from aiayn.spec.system import run_name
from aiayn.stages import STAGE_VERSIONS
from aiayn.train.request import TrainingRequest

logger = logging.getLogger(__name__)


def begun_from(
    request: TrainingRequest, earlier: TrainRecord, data: BinarizedCorpus
) -> TrainingRequest:
    """Return the request of a training that begins at the last update of the `earlier` training.

    Raises:
        ConfigError: if the `earlier` training has a different model, seed or data than the request,
            or does not have fewer updates.
    """
    # The name contains the digest of spec, seed and data, so one comparison checks them all.
    expected = run_name(
        corpus=request.corpus,
        system=str(request.begins_from),
        seed=request.seed,
        training=msgspec.structs.replace(request.training, updates=earlier.updates),
        data_digest=data.digest,
        stage_version=STAGE_VERSIONS["train"],
    )
    if earlier.run != expected:
        raise ConfigError(
            f"{request.system}: --begin-from names the run {earlier.run}, expected {expected}, the"
            f" training of {request.begins_from} with the same seed and data-bin; give its record;"
            " the two systems may differ in `updates` only"
        )
    if earlier.updates >= request.training.updates:
        raise ConfigError(
            f"{request.system}: {request.training.updates} updates, but {earlier.run}, from which"
            f" it begins, has {earlier.updates}; expected more; raise `updates`"
        )
    beginning = Beginning(
        run=earlier.run, update=earlier.updates, tensors_sha256=earlier.tensors_sha256
    )
    folder = RunFolder(earlier.run_folder)
    return msgspec.structs.replace(
        request,
        beginning=beginning,
        beginning_path=str(folder.full_path(earlier.updates).absolute()),
    )


def place_beginning(request: TrainingRequest) -> None:
    """Copy the checkpoint from which a training begins into the folder of its run, unless this
    folder already has a checkpoint.

    Raises:
        LaunchError: if the checkpoint from which the training begins no longer exists.
    """
    folder = request.folder
    # A run with a checkpoint of its own has begun before, and resumes from there.
    if request.beginning is None or request.beginning_path is None or folder.newest_update():
        return
    source_path = Path(request.beginning_path)
    if not source_path.is_file():
        raise LaunchError(
            f"{request.run}: begins at {source_path}, which does not exist; train"
            f" {request.beginning.run} again (`aiayn train --fresh`), or copy its checkpoints"
            " folder back"
        )
    # The copy is in the folder of this run. The training resumes from it as from a checkpoint of
    # its own.
    with replace_on_success(folder.full_path(request.beginning.update)) as partial_path:
        shutil.copyfile(source_path, partial_path)
    logger.info(
        f"{request.run}: begins at update {request.beginning.update} of {request.beginning.run}"
    )

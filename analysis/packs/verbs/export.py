"""Export a run's averaged model for use without fairseq.

RUN is a run's name or any unique beginning of it (default: the newest finished run). The command
creates FOLDER, which holds the tensors, the vocabularies in order of id, the subword models, and a
JSON file with the system, its search, special symbols, tied matrices, run and provenance.

--format safetensors: model.safetensors and config.json, for every system. Tied matrices are stored
once; `tied` in config.json names the others. `aiayn.decode.exported.load_exported(FOLDER)` loads it
as our model.
"""

from pathlib import Path
from typing import Literal

from aiayn.cli.flags import AVERAGE, RESULTS, RUN, flag
from aiayn.runs.finished import find_finished

EXAMPLE = """aiayn export demo_en_de-base-seed1 --average last5 --format safetensors --output exported

  Plain PyTorch then reads it:
    import json
    from safetensors.torch import load_file
    config = json.load(open("exported/config.json", encoding="utf-8"))
    tensors = load_file("exported/model.safetensors")
    tensors |= {name: tensors[stored] for name, stored in config["tied"].items()}
    print(sum(tensor.numel() for name, tensor in tensors.items() if name not in config["tied"]), "parameters")"""  # noqa: E501


class Flags:
    run: str | None = RUN
    results: Path = RESULTS
    average: str | None = AVERAGE
    format: Literal["safetensors"] = flag(
        "format of the export (default: safetensors)", default="safetensors"
    )
    output: Path = flag("a folder that does not exist yet", "FOLDER")


def run(args: Flags) -> None:
    """Find the run, write the folder and say what it holds."""
    from analysis.packs.heavy_export import export_model

    finished = find_finished(args.results, args.run, args.average)
    record = export_model(finished, args.output)
    print(
        f"{args.output}: {record.run}, {record.average}, tensors {record.tensors_sha256[:16]}, as"
        f" {record.format}"
    )

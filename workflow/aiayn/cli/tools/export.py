"""Export a run's averaged model for use without fairseq.

RUN is a run's name or any unique beginning of it (default: the newest finished run). The command creates FOLDER. It
holds the tensors, the vocabularies in order of id, the subword models, and a JSON file with the system, its search,
special symbols, tied matrices, run and provenance.

--format safetensors: model.safetensors and config.json, for every system. Tied matrices are stored once; `tied` in
config.json names the others. `aiayn.decode.exported.load_exported(FOLDER)` loads it as our model.

--format ctranslate2: model.bin and CTranslate2's config.json, with ours as aiayn.json. A system that CTranslate2 cannot
express is refused, with the reason. CTranslate2 uses the length penalty n^alpha and ends a sentence when beam_size
hypotheses have ended. A system with another search is exported only if you accept that change with
--length-penalty-form len and --stop fairseq; aiayn.json then records it. To get our translations, give translate_batch
the system's beam_size, alpha as length_penalty, and the maximum length that our search allows.
"""

from pathlib import Path
from typing import Literal

import msgspec

from aiayn.cli.flags import AVERAGE, RESULTS, RUN, flag
from aiayn.cli.tools.search_flags import LENGTH_PENALTY_FORM, STOP, changed_search
from aiayn.errors import UsageError
from aiayn.runs.finished import find_finished

EXAMPLE = """aiayn export demo_en_de-base-seed1 --average last5 --format safetensors --output exported

  Plain PyTorch then reads it:
    import json
    from safetensors.torch import load_file
    config = json.load(open("exported/config.json", encoding="utf-8"))
    tensors = load_file("exported/model.safetensors")
    tensors |= {name: tensors[stored] for name, stored in config["tied"].items()}
    print(sum(tensor.numel() for name, tensor in tensors.items() if name not in config["tied"]), "parameters")

  CTranslate2 reads the other format; pieces are those of the subword model:
    import ctranslate2
    translator = ctranslate2.Translator("exported")
    translator.translate_batch([pieces], beam_size=4, length_penalty=0.6, max_decoding_length=len(pieces) + 52)"""


class Flags:
    run: str | None = RUN
    results: Path = RESULTS
    average: str | None = AVERAGE
    format: Literal["safetensors", "ctranslate2"] = flag("format of the export")
    output: Path = flag("a folder that does not exist yet", "FOLDER")
    length_penalty_form: Literal["len", "gnmt"] | None = LENGTH_PENALTY_FORM
    stop: Literal["fairseq", "tensor2tensor"] | None = STOP


def run(args: Flags) -> None:
    """Find the run, write the folder and say what it holds."""
    try:
        from aiayn.tools.export import export_model
    except ModuleNotFoundError as error:
        raise UsageError(
            f"the package {error.name} is not installed; run `pip install 'aiayn[train,export]'`"
        ) from error

    finished = find_finished(args.results, args.run, args.average)
    changed = msgspec.structs.replace(finished, decoding=changed_search(finished.decoding, args))
    record = export_model(changed, args.output, format=args.format)
    print(f"{args.output}: {record.run}, {record.average}, tensors {record.tensors_sha256[:16]}, as {record.format}")

"""Score any fairseq model on a test set: translate a split of its data-bin, and print every
definition of BLEU.

The checkpoint may be any translation model saved by fairseq-train, such as `--arch transformer`. It
is unpickled, which may run code: use only checkpoints from people you trust. The data-bin is the
folder that fairseq-preprocess made for the model: its dictionaries, and the split to translate. The
search is the paper's (section 6.1), unless flags change it. Subword pieces (`@@ `, U+2581) are
joined, and the translations are scored as by `aiayn score`: `--repair detokenise` turns tokens into
plain text, which the definitions need; --as-given keeps tokens on both sides.
"""

from pathlib import Path
from typing import Literal

import msgspec

from aiayn.cli.flags import DEVICE, Device, flag, positive
from aiayn.cli.score import TextFlags, print_output_scores, read_references
from aiayn.data.text.detokenise import join_pieces, remove_marks
from aiayn.errors import CorpusError
from aiayn.provenance import replace_on_success
from aiayn.scoring.outputs.system_output import SystemOutput
from aiayn.scoring.score import lines_sha256
from aiayn.spec.system import read_system

EXAMPLE = (
    "aiayn evaluate --checkpoint checkpoint_best.pt --data data-bin/wmt14_en_de --testset"
    " newstest2014 --repair detokenise --output newstest2014.de"
)


class Flags(TextFlags):
    checkpoint: Path = flag("a checkpoint of fairseq-train", "FILE", heading="model and search")
    data: Path = flag("the model's data-bin", "FOLDER")
    split: str = flag("the split of the data-bin to translate (default: test)", default="test")
    beam_size: int | None = flag("default: the paper's 4", "N", parse=positive)
    length_penalty_alpha: float | None = flag("default: the paper's 0.6", "A")
    length_penalty_form: Literal["len", "gnmt"] | None = flag(
        "len is fairseq's (default: the paper's, gnmt and tensor2tensor)"
    )
    stop: Literal["fairseq", "tensor2tensor"] | None = flag(
        "stopping rule (default: the paper's, gnmt and tensor2tensor)"
    )
    output: Path | None = flag("where to write the translations, one a line", "FILE")
    device: Device = DEVICE


def run(args: Flags) -> None:
    """Translate, write the translations to --output if it is given, and print the scores.

    Raises:
        UsageError: if neither a public test set nor references are given.
        CheckpointError: if the checkpoint is torn, or belongs to another data-bin.
        ScoreError: if translations and references differ in number.
    """
    from aiayn.decode.decode import Translator, decode_split, decoding_signature
    from aiayn.train.device import resolve_device

    references, place = read_references(args, None)
    decoding = read_system("base", "paper").decoding
    given = {name: getattr(args, name, None) for name in decoding.__struct_fields__}
    changes = {name: value for name, value in given.items() if value is not None}
    decoding = msgspec.structs.replace(decoding, **changes)
    translator = Translator(
        args.checkpoint, args.data, decoding, device=resolve_device(args.device)
    )
    try:
        hypotheses, _ = decode_split(translator, args.split)
    except FileNotFoundError as error:
        raise CorpusError(
            f"{args.data}: {error}; give a split of this data-bin with --split"
        ) from error
    symbols = translator.task.target_dictionary.symbols
    # sentencepiece marks pieces by U+2581, subword-nmt by @@.
    has_pieces = any("\u2581" in symbol for symbol in symbols)
    join = join_pieces if has_pieces else remove_marks
    lines = [join(" ".join(hypothesis.pieces)).strip() for hypothesis in hypotheses]
    if args.output is not None:
        with replace_on_success(args.output) as partial_path:
            partial_path.write_text(
                "".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n"
            )
    print_output_scores(
        args,
        SystemOutput(
            f"{args.data}, split {args.split}", lines, "lines", sha256=lines_sha256(lines)
        ),
        references,
        place,
        command="the same command with",
        search=decoding_signature(decoding),
    )

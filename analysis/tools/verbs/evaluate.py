"""Score any fairseq model on a test set: translate a split of its data-bin, and print every
definition of BLEU.

The checkpoint may be any translation model saved by fairseq-train, such as `--arch transformer`. It
is unpickled, which may run code: use only checkpoints from people you trust. The data-bin is the
folder that fairseq-preprocess made for the model: its dictionaries, and the split to translate. The
search is the paper's (section 6.1), unless flags change it. Subword pieces (`@@ `, U+2581) are
joined. --detokenise turns tokens into plain text, which the definitions need; --as-given keeps
tokens on both sides.
"""

from pathlib import Path
from typing import Literal

import msgspec

from aiayn.cli.flags import DEVICE, LANGUAGE_PAIR, Device, flag, positive
from aiayn.cli.score import print_scores, score_sides
from aiayn.data.sources.testsets import public_references, target_language_of
from aiayn.data.text.detokenise import join_pieces, remove_marks
from aiayn.errors import CorpusError, ScoreError, UsageError
from aiayn.provenance import replace_on_success
from aiayn.scoring.outputs.system_output import Treatment, find_form_mismatch, read_output
from aiayn.scoring.score import lines_sha256
from aiayn.spec.system import read_system

EXAMPLE = (
    "aiayn evaluate --checkpoint checkpoint_best.pt --data data-bin/wmt14_en_de --testset"
    " newstest2014 --detokenise --output newstest2014.de"
)


class Flags:
    checkpoint: Path = flag("a checkpoint of fairseq-train", "FILE")
    data: Path = flag("the model's data-bin", "FOLDER")
    split: str = flag("the split of the data-bin to translate (default: test)", default="test")
    testset: str | None = flag("its public name: newstest2014, any of sacreBLEU's, ...")
    references: Path | None = flag("references instead of the public ones", "FILE")
    language_pair: str = LANGUAGE_PAIR
    detokenise: bool = flag("detokenise (Moses) the side that is tokens", excludes="treatment")
    as_given: bool = flag("both sides are tokens: do not tokenise them", excludes="treatment")
    force: bool = flag("score even if the sides differ in kind; the signature says so")
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
        ScoreError: if translations and references differ in number or kind.
    """
    from aiayn.decode.decode import Translator, decode_split, decoding_signature
    from aiayn.train.device import resolve_device

    target_language = target_language_of(args.language_pair)
    if args.references is not None:
        references = read_output(args.references).lines
        testset = args.testset or args.references.name
    elif args.testset is not None:
        testset = args.testset
        references = public_references(testset, args.language_pair)
    else:
        raise UsageError(
            "no references; give --testset NAME of a public test set, or --references FILE"
        )
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
    if len(lines) != len(references):
        raise ScoreError(
            f"{args.data}, split {args.split}: {len(lines)} lines, the references have"
            f" {len(references)}; give a --split, --testset or --references that belong together"
        )
    sides = {"hyp": lines, "ref": references}
    treatment = Treatment(args.as_given, False, args.detokenise)
    mismatch = find_form_mismatch(sides, treatment)
    if mismatch is not None and not args.force:
        words = mismatch.words_by_name
        raise ScoreError(
            f"not scored: translations are {words['hyp']}, references {words['ref']}; add"
            " --detokenise, or --as-given if both are tokens (or write translations with --output"
            " FILE for `aiayn score --hypotheses FILE`, which repairs other forms); --force scores"
            " them as they are"
        )
    scores = score_sides(
        sides,
        treatment,
        mismatch,
        target_language=target_language,
        testset=testset,
        sha256=lines_sha256(lines),
        search=decoding_signature(decoding),
    )
    print_scores(scores)

"""Score any fairseq model on a test set: translate it, and print every definition of BLEU.

The checkpoint may be any translation model that fairseq 0.6 to 0.12 saved, such as `--arch
transformer`. Loading a checkpoint never runs code from its file. One of these flags selects the
text to translate:

--data: a data-bin (raw, lazy, cached or mmap) with the model's dictionaries. Without --testset and
--references the translations are scored against the target side of the data-bin, as
fairseq-generate does.

--source: plain text. --bpe-codes (subword-nmt, fastBPE or sentencepiece) splits the text into
pieces, and --dictionaries is the folder of the model's dict.*.txt. Without references the text is
translated but not scored.

--released: a model that fairseq's authors published, with its newstest2014. Model and test set are
downloaded. The test set is decoded with fairseq's search (half an hour on two cores), and the score
is compared with the published score of this model. Ctrl-C stops the decoding and prints the score
of the lines so far. The same command continues the decoding.

Before the translation, the model's loss shows whether the dictionaries are those with which the
model was trained. The beam search is the paper's (section 6.1), unless flags change it. `--search
fairseq` selects the search of fairseq-generate. Subword pieces (`@@ `, U+2581) are joined, and the
translations are scored as by `aiayn score`. The definitions of BLEU need detokenised text. If the
model writes tokens, save the translations with --output and detokenise the file (`sacremoses -l de
detokenize`). With --as-given the tokens of translations and references are compared as they are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from aiayn.cli.flags import DEVICE, RESULTS, Device, flag, positive
from aiayn.cli.score import TextFlags, print_output_scores, read_references
from aiayn.data.text.detokenise import join_pieces, remove_marks
from aiayn.data.text.lines import read_lines, write_lines
from aiayn.data.text.tokenize_moses import detokenize_line
from aiayn.errors import UsageError
from aiayn.progress import progress_bar
from aiayn.provenance import replace_on_success
from aiayn.scoring.outputs.system_output import SystemOutput
from aiayn.scoring.score import lines_sha256
from aiayn.spec.system import DecodingSpec, read_system
from analysis.released.remarks import say

EXAMPLE = (
    "aiayn evaluate --checkpoint checkpoint_best.pt --data data-bin/wmt14_en_de --testset"
    " newstest2014 --output newstest2014.de"
)
# The defaults of fairseq-generate, with the paper's beam and alpha.
FAIRSEQ_SEARCH = {
    "length_penalty_form": "len",
    "stop": "fairseq",
    "max_length_per_source_token": 0,
    "max_extra_tokens": 200,
}


class Flags(TextFlags):
    checkpoint: Path | None = flag(
        "a checkpoint of fairseq-train", "FILE", heading="model and search"
    )
    released: str | None = flag(
        "a released model with its test set: wmt16.en-de or wmt14.en-fr", "NAME"
    )
    max_lines: int | None = flag(
        "for --released: stop after so many lines, a sample of the test set", "N", type=positive
    )
    results: Path = RESULTS
    data: Path | None = flag("a data-bin", "FOLDER")
    split: str = flag("the split of the data-bin to translate (default: test)", default="test")
    source: Path | None = flag("plain text to translate, one sentence a line", "FILE")
    bpe_codes: Path | None = flag("for --source: the model's codes, or sentencepiece model", "FILE")
    dictionaries: Path | None = flag("for --source: the folder of the model's dict.*.txt", "FOLDER")
    tokenised: bool = flag("for --source: it is tokenised already")
    search: Literal["fairseq", "paper"] | None = flag(
        "rules of length penalty, stop and maximal length (default: paper; --released: fairseq)"
    )
    beam_size: int | None = flag("default: the paper's 4", "N", type=positive)
    length_penalty_alpha: float | None = flag("default: the paper's 0.6", "A")
    output: Path | None = flag(
        "where to write the translations (default with references: below results/evaluate)", "FILE"
    )
    device: Device = DEVICE


def run(args: Flags) -> None:
    """Translate, write the translations to --output if it is given, and print the scores.

    Raises:
        UsageError: if the flags do not select a text to translate.
        CheckpointError: if the checkpoint is truncated, or if the dictionaries are not those with
            which the model was trained.
        ScoreError: if the numbers of translations and references differ.
    """
    from aiayn.decode.decode import Translator, load_split
    from aiayn.train.device import resolve_device
    from analysis.released.heavy_dictionary_check import check_by_loss, check_without_references

    decoding = search_of(args)
    device = resolve_device(args.device)
    if args.released is not None:
        from analysis.released.heavy_released import evaluate_released

        evaluate_released(args, decoding, device)
        return
    folder = args.data or args.dictionaries
    # Exactly one of the two ways is allowed: a data-bin, or plain text with codes and dictionaries.
    has_source = None not in (args.source, args.bpe_codes, args.dictionaries)
    if args.checkpoint is None or folder is None or (args.data is None) != has_source:
        raise UsageError(
            "give --checkpoint FILE with --data FOLDER, or with --source FILE, --bpe-codes FILE and"
            " --dictionaries FOLDER; or --released NAME"
        )
    has_references = args.references is not None or args.testset is not None
    references, place = read_references(args, None) if has_references else ([], "")
    # The references are read first: an unknown test set must not cost a translation.
    translator = Translator(args.checkpoint, folder, decoding, device=device)
    task = translator.task
    symbols = task.target_dictionary.symbols
    has_moses = False
    # sentencepiece marks pieces by U+2581, subword-nmt and fastBPE by @@.
    # A model has one kind of subwords, so one symbol with the mark is enough.
    join = join_pieces if any("\u2581" in symbol for symbol in symbols) else remove_marks
    if args.source is None:
        sources, targets = load_split(task, args.split)
        if targets is not None and not has_references:
            # As in fairseq-generate, the references are the tokens of the data-bin without subword
            # marks. The last id is </s>.
            references = [
                join(" ".join(symbols[number] for number in numbers[:-1])).strip()
                for numbers in targets
            ]
            place = f"{folder}, split {args.split} ({task.cfg.target_lang})"
            args.as_given = True
    else:
        sources, targets, has_moses = number_text(translator, args, references)
    # The check needs a reference for each line. An error of numbers is reported by the scores
    # below.
    if targets is not None and len(targets) == len(sources) and not args.no_warning:
        say(check_by_loss(translator, sources, targets, str(folder)))
    with progress_bar("decode", len(sources), " lines") as bar:
        lines = [
            join(" ".join(hypothesis.pieces)).strip()
            for hypothesis in translator.translate(sources, bar)
        ]
    # Plain text was tokenised for the model, so the translation is detokenised.
    if has_moses:
        lines = [detokenize_line(line, task.cfg.target_lang) for line in lines]
    path = args.output
    # The translations are written before they are scored. If the score is refused, hours of work
    # are not lost.
    if path is None and references:
        name = f"{args.checkpoint.absolute().parent.name}-{args.checkpoint.stem}"
        text = args.split if args.source is None else args.source.stem
        path = args.results / f"evaluate/{name}-{text}.{task.cfg.target_lang}"
    if path is not None:
        with replace_on_success(path) as partial_path:
            write_lines(lines, partial_path)
        say(f"the translations are in {path}")
    if not references:
        if path is None:
            print("\n".join(lines))
        # The special symbols come first in a dictionary. Their counts do not come from the training
        # text.
        counts = task.target_dictionary.count[task.target_dictionary.nspecial :]
        num_sources = len({tuple(source.tolist()) for source in sources})
        say(check_without_references(counts, lines, num_sources, str(folder)))
        return
    print_output_scores(
        args,
        SystemOutput(str(path), lines, "lines", sha256=lines_sha256(lines)),
        references,
        place,
        search=decoding.signature,
    )


def search_of(args: Any) -> DecodingSpec:
    """Return the settings of the beam search: the paper's or fairseq's, with the beam size and the
    length penalty of the flags.
    """
    decoding = read_system("base", "paper").decoding
    is_by_fairseq = args.search == "fairseq" or (args.search is None and args.released is not None)
    changes: dict[str, Any] = dict(FAIRSEQ_SEARCH) if is_by_fairseq else {}
    # The names of the flags are the names of the fields of `DecodingSpec`.
    for name in ("beam_size", "length_penalty_alpha"):
        if (value := getattr(args, name)) is not None:
            changes[name] = value
    return msgspec.structs.replace(decoding, **changes)


def number_text(translator: Any, args: Flags, references: Sequence[str]) -> tuple[Any, Any, bool]:
    """Return three things: the token ids of the lines of --source, the token ids of the references
    (None without references), and whether the lines were tokenised by Moses.
    """
    from aiayn.data.text.foreign import foreign_splitter

    task = translator.task
    assert args.source is not None  # `run` requires both
    assert args.bpe_codes is not None
    sides: list[Any] = []
    for dictionary, language, lines in (
        (task.source_dictionary, task.cfg.source_lang, list(read_lines(args.source))),
        (task.target_dictionary, task.cfg.target_lang, references),
    ):
        split, words = foreign_splitter(
            args.bpe_codes, dictionary.symbols, language, is_tokenised=args.tokenised
        )
        # `add_if_not_exist=False` gives unknown pieces the id of <unk>. fairseq's default would add
        # symbols for which the model lacks embeddings.
        numbers = [dictionary.encode_line(split(line), add_if_not_exist=False) for line in lines]
        sides.append([line.long() for line in numbers])
    say(f"{args.source}: {words}")
    return sides[0], sides[1] or None, words.startswith("Moses")

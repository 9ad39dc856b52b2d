"""Draw what the heads of a trained run attend to in a sentence (Figures 3 to 5 of the paper), and
write the weights.

RUN is the name of a run or of a shipped model, or any unique beginning of the name (default: the
newest finished run). In place of RUN, --checkpoint, --data and --bpe-codes select any model of
fairseq, as in `aiayn evaluate`. Without --sentence the two sentences of the paper's figures are
used. The attention weights are computed by the model, for all heads of a layer. The command writes
<name>.tsv, a line for each weight, and, with the extra `figures`, lines between words, coloured by
head, and a matrix for each head.

  aiayn attention demo_en_de-base-seed1 --sentence 'The dog sees the cat.' --kind cross --layer 2
  --head 1 --head 3
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from aiayn.cli.flags import AVERAGE, DEVICE, RESULTS, RUN, Device, flag
from aiayn.cli.translate import text_splitter
from aiayn.errors import UsageError
from aiayn.runs.finished import find_finished
from aiayn.spec.system import read_system

EXAMPLE = "aiayn attention demo_en_de-base-seed1 --sentence 'The dog sees the cat.' --word dog"


class Flags:
    run: str | None = RUN
    checkpoint: Path | None = flag("a checkpoint of fairseq-train, instead of a run", "FILE")
    data: Path | None = flag("for --checkpoint: the folder of the model's dict.*.txt", "FOLDER")
    bpe_codes: Path | None = flag(
        "for --checkpoint: the model's codes; without them the sentence is given in pieces", "FILE"
    )
    results: Path = RESULTS
    average: str | None = AVERAGE
    sentence: str | None = flag("a source sentence (default: the paper's two)", "TEXT")
    kind: Literal["encoder", "decoder", "cross"] = flag(
        "encoder, decoder (masked), or cross, the decoder's attention to the source; the decoder"
        " reads the model's own translation (default: encoder)",
        default="encoder",
    )
    layer: int | None = flag("from 1 (default: the second last, as the paper's 5 of 6)", "N")
    head: list[int] = flag(
        "draw this head, from 1; may be repeated", "N", action="append", nargs=None
    )
    word: str = flag("draw lines from this word only, as in Figure 3", default="")
    output: Path | None = flag(
        "where to write (default: results/<scale>/attention/<run>)", "FOLDER"
    )
    device: Device = DEVICE


def run(args: Flags) -> None:
    """Write the attention weights to a file and draw them. Print the path of each file."""
    # torch is imported only here, so that --help is fast and works without it.
    from aiayn.data.text.foreign import foreign_splitter
    from aiayn.decode.decode import Translator
    from aiayn.train.device import resolve_device
    from analysis.figures import PAPER_SENTENCES
    from analysis.figures.heavy_attention_weights import attention_weights, write_weights
    from paper_tables.render.draw import has_figures
    from paper_tables.render.drawn import INSTALL_COMMAND

    if args.sentence is not None and not args.sentence.strip():
        raise UsageError("--sentence is empty; expected a sentence in the source language")
    device = resolve_device(args.device)
    if args.checkpoint is not None:
        if args.data is None:
            raise UsageError("--checkpoint: expected also --data FOLDER, with its dict.*.txt")
        # The search of other people's checkpoints is not recorded, so the paper's search is taken.
        decoding = read_system("base", "paper").decoding
        translator = Translator(args.checkpoint, args.data, decoding, device=device)
        run_name = args.checkpoint.stem
        output_folder = args.output or Path("results/attention")
        # Without codes the user gives the sentence in pieces, which stay as they are.
        split: Callable[[str], str] = str
        if args.bpe_codes is not None:
            task = translator.task
            symbols = task.source_dictionary.symbols
            language = task.cfg.source_lang
            split, words = foreign_splitter(args.bpe_codes, symbols, language)
            print(f"{args.checkpoint}: {words}", file=sys.stderr)
    else:
        finished = find_finished(args.results, args.run, args.average)
        checkpoint, data = finished.checkpoint, finished.data
        run_name = checkpoint.run
        print(f"{run_name}, {checkpoint.average}, from {checkpoint.path}", file=sys.stderr)
        translator = Translator(checkpoint, data.folder, finished.decoding, device=device)
        split = text_splitter(finished, data.source_language)
        output_folder = args.output or args.results / finished.scale / "attention" / run_name
    sentences = list(PAPER_SENTENCES) if args.sentence is None else [args.sentence]
    # The weights are written in any case. Only the drawings need the extra.
    for number, sentence in enumerate(sentences, start=1):
        weights = attention_weights(translator, split(sentence), kind=args.kind, layer=args.layer)
        name = f"{weights.kind}_layer{weights.layer}"
        if args.sentence is None:
            # The first of the paper's sentences is in Figure 3, the second in Figure 4.
            name += f"_figure{number + 2}"
        path = output_folder / f"{name}.tsv"
        write_weights(weights, run_name, path)
        print(path)
        if has_figures():
            from analysis.figures.heavy_attention import draw_attention

            # Only a word from the command line has to occur. The paper's words are a default.
            word = args.word or PAPER_SENTENCES.get(sentence, "")
            is_asked = bool(args.word)
            for line in draw_attention(path, heads=args.head, word=word, needs_word=is_asked):
                print(line)
    if not has_figures():
        print(f"no figures without the extra: {INSTALL_COMMAND}")

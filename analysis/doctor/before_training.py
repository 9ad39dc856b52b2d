"""A training before it is run, from its command: what differs from the paper's configuration of the nearest system.

Commands become settings in the paper's symbols; each setting that differs is a finding, as those of a log are, so that
one table of costs serves both. Settings of another toolkit can be compared too: only `Settings` is read.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from aiayn.paths import num_averaged
from aiayn.printed import METRIC_BY_PAIR
from aiayn.spec.system import TrainingSpec, read_system
from analysis.doctor.check_data import fact, found
from analysis.doctor.check_training import (
    LARGER_RANK,
    MAX_BATCH_RATIO,
    MAX_UPDATES_RATIO,
    MIN_PAPER_BATCH_RATIO,
    MIN_UPDATES_RATIO,
    PAPER_TOKENS_PER_UPDATE,
    SYMBOL_CHECKS,
    TOLERANCE,
)
from analysis.doctor.fairseq_commands import METRIC_BY_SCORER, FairseqCommand, PastedBleu
from analysis.doctor.types import Claim
from analysis.findings import Finding
from analysis.logs.symbols import SYMBOL_RULES, Symbol, Symbols, are_equal, symbols_of_arguments, symbols_of_spec

# Real target tokens over max-tokens x GPUs x update-freq: 0.88 to 0.94 in logs of WMT (fairseq #1331, #506, #233).
TOKENS_PER_POSITION = 0.9
TOKENS_PER_SENTENCE = 30  # target side of WMT14 En-De: 4.5M pairs, 138M tokens
EPOCH_TOKENS = {"en-de": 138e6, "en-fr": 1.2e9}  # fairseq #512, #1331; OpenNMT-tf #40
SLIP_RATIO = 1.06  # longer than the references at a brevity penalty of 1: seen where text was tokenised otherwise
MIN_SLIP = 3.0  # BLEU; less than that, no published slip of tokenisation cost
SAME_LENGTH, OTHER_LENGTH = 0.01, 0.02
# Words of what is no symbol, or is another quantity than a log's.
_WORDS = {
    "tokens_per_update": "tokens an update", "tied_embeddings": "embeddings", "max_length": "length limit",
    "precision_fp16": "precision", "slip": "length ratio", "reference_order": "references",
}  # fmt: skip
_ALL_SHARED, _DECODER_SHARED, _NONE_SHARED = "all three one matrix", "decoder and output", "none shared"


class Settings(msgspec.Struct, frozen=True):
    """The settings of a training and its evaluation; None or '' where the file does not give one.

    `target_tokens_per_update` are real tokens of all GPUs; `tokens_words` how they come about. `bleu` (percent, in the
    definition `metric`), `length_ratio` and `brevity_penalty` are of the last score that was reported for it.
    """

    place: str
    symbols: Symbols
    line_by_symbol: Mapping[str, int] = {}
    target_tokens_per_update: float | None = None
    tokens_words: str = ""
    num_epochs: float | None = None
    embeddings: str = ""
    data: str = ""
    average: int | None = None
    average_words: str = ""
    beam_size: int | None = None
    length_penalty_alpha: float | None = None
    length_limit: str = ""
    leaves_pieces: bool = False
    metric: str = ""
    bleu: float | None = None
    length_ratio: float | None = None
    brevity_penalty: float | None = None
    bleus: tuple[PastedBleu, ...] = ()


class Trial(msgspec.Struct, frozen=True):
    """A training of a file with the averaging, generation and scoring that follow it; either may be absent."""

    training: FairseqCommand | None
    others: tuple[FairseqCommand, ...]

    @property
    def line(self) -> int:
        """The line in which it begins."""
        return (self.training or self.others[0]).line


def trials_of(commands: Sequence[FairseqCommand]) -> list[Trial]:
    """Return the trainings of a file in their order; commands before the first training belong to it."""
    trials: list[tuple[FairseqCommand | None, list[FairseqCommand]]] = [(None, [])]
    for command in commands:
        if command.program == "train":
            if trials[-1][0] is not None:
                trials.append((None, []))
            trials[-1] = (command, trials[-1][1])
        else:
            trials[-1][1].append(command)
    return [Trial(training, tuple(others)) for training, others in trials]


class Corpus(msgspec.Struct, frozen=True):
    """The corpus of a trial: `name` is one of ours, `iwslt14_de_en` or `other`; `stated_by` quotes the file.

    Where the file names none, the corpus of its language pair, else of En-De, is taken: `is_stated` is false.
    """

    name: str
    stated_by: str
    is_stated: bool


def corpus_of(trial: Trial) -> Corpus:
    """Return the corpus of a trial, by its data-bin, its languages or the name of its model.

    Google's wmt16_en_de, which is WMT14's training text of the paper, and fairseq's wmt17_en_de count as wmt14_en_de:
    the second with another text, which is a finding.
    """
    commands = [command for command in (trial.training, *trial.others) if command is not None]
    languages = next((pair for command in commands if (pair := _languages_of(command))), "")
    texts = [command.data for command in commands] + [
        str(command.arguments.get(key) or "") for key in ("data", "trainpref", "destdir", "save_dir", "path")
        for command in commands
    ]  # fmt: skip
    texts = [text for text in texts if text]
    for text in texts:
        name = text.lower()
        pair = languages or _pair_of(name)
        if re.search(r"iwslt.?(20)?14", name) and pair in ("de-en", ""):
            return Corpus("iwslt14_de_en", text, True)
        if re.search(r"iwslt|multi30k|wmt.?(15|18|19|2\d)|opus|ted(?![a-z])", name):
            return Corpus("other", text, True)
        if re.search(r"wmt.?(20)?1[467]", name) and pair:
            is_papers = pair in METRIC_BY_PAIR and not (pair == "en-fr" and "wmt17" in name)
            return Corpus(f"wmt14_{pair.replace('-', '_')}" if is_papers else "other", f"{text} ({pair})", True)
    architecture = "" if trial.training is None else str(trial.training.arguments.get("arch") or "")
    if "iwslt" in architecture:
        return Corpus("other", architecture, True)
    pair = languages or next((pair for text in texts if (pair := _pair_of(text.lower()))), "")
    if pair and pair not in METRIC_BY_PAIR:
        return Corpus("other", pair, True)
    return Corpus(f"wmt14_{(pair or 'en-de').replace('-', '_')}", texts[0] if texts else "", False)


def is_translation(command: FairseqCommand) -> bool:
    """Return whether a command trains or runs a translation by its task; fairseq's default is one."""
    task = command.arguments.get("task")
    return task is None or str(task).startswith(("translation", "$")) or "translation" in str(task)


def _languages_of(command: FairseqCommand) -> str:
    source, target = command.arguments.get("source_lang"), command.arguments.get("target_lang")
    return f"{source}-{target}" if source and target else ""


def _pair_of(name: str) -> str:
    found = re.search(r"(en|de|fr|ro|ru|zh|cs)[-_.]?(?:2|to)?[-_.]?(en|de|fr|ro|ru|zh|cs)(?![a-z])", name)
    return f"{found[1]}-{found[2]}" if found and found[1] != found[2] else ""


def nearest_system(symbols: Symbols, language_pair: str) -> str:
    """Return base or big (of En-Fr: base or big_enfr), whichever has more of the model's numbers; base if alike."""
    big = "big_enfr" if language_pair == "en-fr" else "big"

    def distance(system: str) -> int:
        expected = symbols_of_spec(read_system(system, "paper").training)
        names = ("d_model", "d_ff", "num_heads", "num_layers")
        return sum(name in symbols and not are_equal(symbols[name], expected[name]) for name in names)

    return min(("base", big), key=distance)


def settings_of(trial: Trial, path: str, bleus: Sequence[PastedBleu]) -> Settings:
    """Return the settings of a trial from its commands."""
    settings = Settings(place=path, symbols={}, bleus=tuple(bleus))
    if trial.training is not None:
        settings = _with_training(settings, trial.training)
    for command in trial.others:
        if command.program == "average":
            settings = _with_averaging(settings, command)
        elif command.program == "generate":
            settings = _with_generation(settings, command)
        elif command.program == "score" and settings.metric != "bleu_tok_compound_split":
            # of several definitions the paper's counts
            settings = replace(settings, metric=_metric_of_scorer(command))
            settings = _with_lines(settings, command, "scoring")
    is_split = settings.metric == "bleu_tok_compound_split"
    reported = [one for one in bleus if not (is_split and one.metric.startswith("bleu_sacre"))]
    if reported:
        last = reported[-1]
        is_named = last.metric.startswith("bleu_sacre")  # sacreBLEU signs its lines, others do not
        settings = replace(
            settings,
            metric=last.metric if is_named else settings.metric or last.metric,
            bleu=last.value,
            length_ratio=last.ratio,
            brevity_penalty=last.brevity_penalty,
        )
    return settings


def _with_training(settings: Settings, command: FairseqCommand) -> Settings:
    arguments = command.arguments
    symbols = symbols_of_arguments(arguments, command.num_gpus)
    all_shared, decoder_shared = (
        arguments.get(key) for key in ("share_all_embeddings", "share_decoder_input_output_embed")
    )
    embeddings = ""
    if all_shared is not None or decoder_shared is not None:
        embeddings = _ALL_SHARED if all_shared is True else _DECODER_SHARED if decoder_shared is True else _NONE_SHARED
    tokens, words = tokens_per_update(command)
    lines = {symbol: command.line_by_key.get(rule.key, command.line) for symbol, rule in SYMBOL_RULES.items()}
    epochs = arguments.get("max_epoch")
    has_updates = isinstance(arguments.get("max_update"), int) and arguments["max_update"]
    return replace(
        settings,
        symbols=symbols,
        line_by_symbol=lines | {"": command.line},
        target_tokens_per_update=tokens,
        tokens_words=words,
        num_epochs=float(epochs) if isinstance(epochs, int) and epochs and not has_updates else None,
        embeddings=embeddings,
        data=command.data,
    )


def tokens_per_update(command: FairseqCommand) -> tuple[float | None, str]:
    """Return the real target tokens of an update (None where the GPUs are not known) and how they come about."""
    arguments = command.arguments
    positions, sentences = arguments.get("max_tokens"), arguments.get("batch_size")
    frequency = arguments.get("update_freq")
    tokens = [positions * TOKENS_PER_POSITION] if isinstance(positions, int) else []
    tokens += [float(sentences * TOKENS_PER_SENTENCE)] if isinstance(sentences, int) else []
    if not tokens or not isinstance(frequency, int):
        return None, ""
    each = f"{positions:,}" if isinstance(positions, int) else f"{sentences} sentences"
    if command.num_gpus is None:
        return None, f"{each} x {frequency} a GPU"
    return min(tokens) * frequency * command.num_gpus, f"{each} x {frequency} x {command.num_gpus} GPUs"


def _with_lines(settings: Settings, command: FairseqCommand, *symbols: str) -> Settings:
    return replace(settings, line_by_symbol={**settings.line_by_symbol} | dict.fromkeys(symbols, command.line))


def _with_averaging(settings: Settings, command: FairseqCommand) -> Settings:
    settings = _with_lines(settings, command, "average")
    for key in ("num_update_checkpoints", "num_epoch_checkpoints"):
        number = command.arguments.get(key)
        if isinstance(number, int):
            return replace(settings, average=number, average_words=f"last {number} ({key.split('_')[1]}s)")
    return replace(settings, average_words="a list of checkpoints")


def _with_generation(settings: Settings, command: FairseqCommand) -> Settings:
    arguments = command.arguments
    names = ["beam_size", "length_penalty_alpha", "max_length", "pieces"]
    names += [] if settings.average_words else ["average"]
    settings = _with_lines(settings, command, *names, *([] if settings.metric else ["scoring"]))
    path = str(arguments.get("path") or "")
    if not settings.average_words and path:
        if re.search(r"ave?ra?ge?|avg", path.lower()):
            number = re.search(r"(?:avg|average)[-_.]?(\d+)", path.lower())
            settings = replace(settings, average=int(number[1]) if number else None, average_words=path)
        elif "checkpoint" in path.lower() and ":" not in path:
            settings = replace(settings, average=1, average_words=path.rsplit("/", 1)[-1])
    alpha = arguments.get("lenpen")
    limit = (arguments.get("max_len_a"), arguments.get("max_len_b"))
    pieces = arguments.get("post_process") is None and arguments.get("scoring") != "none"
    metric = (
        "bleu_sacre_13a" if arguments.get("sacrebleu") or arguments.get("scoring") == "sacrebleu" else "bleu_fairseq"
    )
    beam = arguments.get("beam")
    return replace(
        settings,
        beam_size=beam if isinstance(beam, int) else None,
        length_penalty_alpha=float(alpha) if isinstance(alpha, int | float) else None,
        length_limit=f"{limit[0]} x source + {limit[1]}" if None not in limit else "",
        leaves_pieces=pieces and command.name.startswith(("fairseq-generate", "generate", "fairseq_cli.generate")),
        metric=settings.metric or metric,
    )


def _metric_of_scorer(command: FairseqCommand) -> str:
    metric = METRIC_BY_SCORER.get(command.name, "")
    if command.arguments.get("sacrebleu"):
        metric = "bleu_sacre_13a"
    if metric == "bleu_sacre_13a" and (command.arguments.get("lc") or command.arguments.get("lowercase")):
        return "bleu_sacre_13a_lc"
    if metric == "bleu_sacre_13a" and "intl" in (command.arguments.get("tok"), command.arguments.get("tokenize")):
        return "bleu_sacre_intl"
    return metric


def findings_of(settings: Settings, claim: Claim) -> list[Finding]:
    """Return what differs from a system of the paper, one finding a setting, in the order of the checks."""
    return [
        *_data_findings(settings, claim),
        *_batch_findings(settings, claim.training),
        *_symbol_findings(settings, claim.training),
        *_embedding_findings(settings, claim.training),
        *_update_findings(settings, claim),
        *_evaluation_findings(settings, claim),
    ]


def _finding(
    settings: Settings, check: str, symbol: str, here: object, papers: object, fix: str,
    *, amount: float | None = None, rank: str | None = None, what: str = "",
) -> Finding:  # fmt: skip
    words = _WORDS.get(symbol) or (SYMBOL_RULES[symbol].words if symbol in SYMBOL_RULES else symbol)
    line = settings.line_by_symbol.get(symbol, settings.line_by_symbol.get(""))
    evidence = [fact(settings.place, words, here, papers, line)]
    return found(check, words, evidence, fix, rank=rank, what=what or symbol, amount=amount)


def _data_findings(settings: Settings, claim: Claim) -> Iterator[Finding]:
    if re.search(r"wmt.?17", settings.data.lower()) and claim.corpus.name == "wmt14_en_de":
        fix = "Google's wmt16_en_de (prepare-wmt14en2de.sh: --icml17)"
        yield _finding(settings, "data", "data", "WMT17's text", "WMT14's", fix, rank="5b")


def _batch_findings(settings: Settings, training: TrainingSpec) -> Iterator[Finding]:
    tokens = settings.target_tokens_per_update
    if tokens is None:
        return
    ratio = tokens / PAPER_TOKENS_PER_UPDATE
    if MIN_PAPER_BATCH_RATIO <= ratio <= MAX_BATCH_RATIO:
        return
    here = f"{_rounded(tokens):,}" + (f" ({settings.tokens_words})" if settings.tokens_words else "")
    factor = PAPER_TOKENS_PER_UPDATE / tokens
    fix = f"--update-freq {factor:.0f} times as large" if factor >= 1.5 else "--update-freq x GPUs for 25,000 tokens"
    rank = "3" if ratio < 1 else LARGER_RANK
    if ratio > 1:
        fix = "none needed: name it beside the number"
    papers = f"{PAPER_TOKENS_PER_UPDATE:,}"
    yield _finding(settings, "batch", "tokens_per_update", here, papers, fix, amount=ratio, rank=rank)


def _rounded(number: float) -> int:
    """Return an estimate with two digits."""
    digits = max(0, len(str(int(number))) - 2)
    return int(round(number, -digits))


def _symbol_findings(settings: Settings, training: TrainingSpec) -> Iterator[Finding]:
    expected = symbols_of_spec(training)
    compared = [name for name, rule in SYMBOL_RULES.items() if rule.key and rule.check in SYMBOL_CHECKS]
    for symbol in (*compared, "schedule", "peak_learning_rate", "warmup_steps"):
        rule, value, papers = SYMBOL_RULES[symbol], settings.symbols.get(symbol), expected.get(symbol)
        if value is None or papers is None:
            continue
        if are_equal(value, papers, TOLERANCE if symbol == "peak_learning_rate" else 0.0):
            continue
        amount = float(value) if isinstance(value, int | float) else None
        if symbol in ("peak_learning_rate", "warmup_steps") and amount is not None and isinstance(papers, int | float):
            amount /= papers
            if settings.symbols.get("schedule") != expected.get("schedule"):
                continue  # the schedule's own finding
        fix = rule.flags.format(_shown(papers))
        yield _finding(settings, rule.check, symbol, _shown(value), _shown(papers), fix, amount=amount)
    if settings.symbols.get("precision") == "fp16":
        fix = "none needed"
        yield _finding(settings, "model", "precision_fp16", "fp16", "fp32", fix)


def _shown(value: Symbol) -> str:
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}" if value >= 10_000 else str(value)
    return f"{value:.3g}"


def _embedding_findings(settings: Settings, training: TrainingSpec) -> Iterator[Finding]:
    if settings.embeddings and settings.embeddings != _ALL_SHARED and training.tied_embeddings:
        fix = "--share-all-embeddings (preprocess: --joined-dictionary)"
        yield _finding(settings, "model", "tied_embeddings", settings.embeddings, _ALL_SHARED, fix)


def _update_findings(settings: Settings, claim: Claim) -> Iterator[Finding]:
    spec_updates = claim.training.updates
    tokens, updates = settings.target_tokens_per_update, settings.symbols.get("updates")
    ratios: list[float] = []
    here, papers = "", f"{spec_updates:,} x {PAPER_TOKENS_PER_UPDATE:,} tokens"
    if isinstance(updates, int) and updates:
        here = f"{updates:,}"
        ratios = [updates / spec_updates]
        if tokens is not None:
            ratios.append(updates * tokens / (spec_updates * PAPER_TOKENS_PER_UPDATE))
    elif settings.num_epochs and claim.corpus.language_pair in EPOCH_TOKENS:
        here = f"{settings.num_epochs:g} epochs"
        ratios = [
            settings.num_epochs * EPOCH_TOKENS[claim.corpus.language_pair] / (spec_updates * PAPER_TOKENS_PER_UPDATE)
        ]
    if not ratios or not (max(ratios) < MIN_UPDATES_RATIO or min(ratios) > MAX_UPDATES_RATIO):
        return
    is_short = max(ratios) < MIN_UPDATES_RATIO
    here += f", {ratios[-1]:.0%} of the tokens" if len(ratios) > 1 or settings.num_epochs else ""
    fix = f"--max-update {spec_updates}" if is_short else "none needed: name it beside the number"
    rank = "6" if is_short else LARGER_RANK
    yield _finding(settings, "updates", "updates", here, papers, fix, amount=ratios[-1], rank=rank)


def _evaluation_findings(settings: Settings, claim: Claim) -> Iterator[Finding]:
    """Yield differences in averaging, search and scoring, and what a reported BLEU line shows."""
    expected = sorted(num_averaged(name) for name in claim.averages_by_role.get("test", ()))
    if settings.average is not None and expected and settings.average not in expected:
        here = settings.average_words or f"last {settings.average}"
        fix = f"average_checkpoints.py --num-update-checkpoints {expected[-1]}"
        amount = float(settings.average)
        yield _finding(settings, "average", "average", here, f"last {expected[-1]}", fix, amount=amount)
    for symbol, flag in (("beam_size", "--beam"), ("length_penalty_alpha", "--lenpen")):
        value, papers = getattr(settings, symbol), getattr(claim.decoding, symbol)
        if value is not None and value != papers:
            fix = f"{flag} {papers:g}"
            yield _finding(settings, "search", symbol, f"{value:g}", f"{papers:g}", fix, amount=float(value))
    if settings.length_limit and settings.length_limit not in ("1 x source + 50", "1.0 x source + 50"):
        fix = "--max-len-a 1 --max-len-b 50"
        is_default = settings.length_limit in ("0 x source + 200", "0.0 x source + 200")
        what = "max_length" if is_default else "max_length_other"
        yield _finding(settings, "search", "max_length", settings.length_limit, "source + 50", fix, what=what)
    if settings.leaves_pieces:
        fix = "--remove-bpe (SentencePiece: --remove-bpe sentencepiece)"
        yield _finding(settings, "pieces", "pieces", "left in", "joined", fix, rank="")
    printed = METRIC_BY_PAIR.get(claim.corpus.language_pair)
    if settings.metric and printed and settings.metric != printed:
        what = f"definition {settings.metric}"
        fix = "`aiayn score`: every definition"
        yield _finding(settings, "definition", "scoring", settings.metric, printed, fix, what=what)
    yield from _signals(settings)


def _signals(settings: Settings) -> Iterator[Finding]:
    """Yield what lengths in a BLEU line point to, as they did in published cases."""
    ratio, penalty = settings.length_ratio, settings.brevity_penalty
    if ratio is not None and penalty is not None and ratio >= SLIP_RATIO and penalty >= 0.999:
        fix = "tokenise both sides alike, join the pieces, take out mark-up: `aiayn score` from raw lines"
        papers = f"under {SLIP_RATIO} at penalty 1.0"
        yield _finding(settings, "lengths", "slip", f"{ratio:g}", papers, fix, amount=ratio, rank="1b")
    for place, one in enumerate(settings.bleus):
        for other in settings.bleus[:place]:
            lengths = sorted((one.hypothesis_length, other.hypothesis_length))
            references = sorted((one.reference_length, other.reference_length))
            if lengths[1] <= lengths[0] * (1 + SAME_LENGTH) and references[1] > references[0] * (1 + OTHER_LENGTH):
                here = f"{one.reference_length:,} and {other.reference_length:,} tokens"
                fix = "one reference, tokenised as the outputs: `aiayn score --testset NAME` checks its MD5"
                yield _finding(settings, "reference_order", "reference_order", here, "one length", fix)
                return


def slip_finding(settings: Settings) -> Finding:
    """Return the finding on text and scoring, for missing BLEU that no setting explains."""
    fix = "look at 20 lines of either side: tokens, pieces, escapes, mark-up; then `aiayn score` from raw lines"
    here = "in no setting"
    return _finding(
        settings, "pieces", "text and scoring", here, "as the references", fix, what="slip", amount=0.0, rank="1b"
    )


def unstated_settings(settings: Settings, trial: Trial | None) -> list[str]:
    """Return one sentence for each kind of setting that the file does not give."""
    notes = []
    if trial is not None and trial.training is not None and settings.target_tokens_per_update is None:
        why = "neither --max-tokens nor --batch-size is known"
        if settings.tokens_words:
            why = f"{settings.tokens_words}, and on how many GPUs? Say --num-gpus N"
        notes.append(
            f"Tokens an update: not compared: {why}. The paper has {PAPER_TOKENS_PER_UPDATE:,} target tokens over all "
            f"GPUs{_gpus_needed(trial)}."
        )
    absent = []
    if trial is None or trial.training is None:
        absent.append("the training (name its system by --system)")
    elif not settings.symbols.get("updates") and not settings.num_epochs:
        absent.append("updates (--max-update)")
    if not settings.average_words and settings.average is None:
        absent.append("averaging")
    if settings.beam_size is None:
        absent.append("search (fairseq-generate)")
    if not settings.metric:
        absent.append("scoring")
    if absent:
        notes.append(f"Not in the file: {', '.join(absent)}.")
    commands = [] if trial is None else [one for one in (trial.training, *trial.others) if one is not None]
    unknown = list(dict.fromkeys(flag for command in commands for flag in command.unknown))
    if unknown:
        notes.append(f"Not flags of fairseq 0.12, not compared: {', '.join(unknown)}.")
    unread = list(dict.fromkeys(text for command in commands for text in command.unread))
    if unread:
        notes.append(f"Values known only in a run, not compared: {'; '.join(unread)}.")
    return notes


def _gpus_needed(trial: Trial) -> str:
    command = trial.training
    if command is None:
        return ""
    tokens, _ = tokens_per_update(replace(command, num_gpus=1))
    return "" if not tokens else f": about {max(1, round(PAPER_TOKENS_PER_UPDATE / tokens))} GPUs of these batches"

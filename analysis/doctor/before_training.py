"""Fills the doctor's case from commands: a training before it is run, as far as its commands say what it will be."""

import re
from collections.abc import Sequence

import msgspec

from aiayn.printed import METRIC_BY_PAIR
from aiayn.spec.system import CorpusSpec, read_system
from analysis.doctor.check_training import PAPER_TOKENS_PER_UPDATE
from analysis.doctor.fairseq_commands import METRIC_BY_SCORER, FairseqCommand
from analysis.doctor.types import Reported, Trained, Translation, search_of_arguments
from analysis.logs.symbols import SYMBOL_RULES, Symbols, are_equal, symbols_of_arguments, symbols_of_spec
from analysis.logs.types import BleuLine

# Real target tokens over max-tokens x GPUs x update-freq: 0.88 to 0.94 in logs of WMT (fairseq #1331, #506, #233).
TOKENS_PER_POSITION = 0.9
TOKENS_PER_SENTENCE = 30  # target side of WMT14 En-De: 4.5M pairs, 138M tokens


class Trial(msgspec.Struct, frozen=True):
    """A training of a file with the averaging, generation and scoring that follow it; either may be absent."""

    training: FairseqCommand | None
    others: tuple[FairseqCommand, ...]

    @property
    def line(self) -> int:
        """The line in which it begins."""
        return (self.training or self.others[0]).line

    @property
    def generates(self) -> bool:
        """Whether a command of it translates."""
        return any(command.program == "generate" for command in self.others)

    def notes(self) -> list[str]:
        """Return a sentence on flags of no known meaning, and one on settings in files that are not read."""
        commands = [command for command in (self.training, *self.others) if command is not None]
        unknown = ", ".join(dict.fromkeys(flag for command in commands for flag in command.unknown))
        unread = "; ".join(dict.fromkeys(text for command in commands for text in command.unread))
        notes = [f"Not flags of fairseq 0.12, not compared: {unknown}."] if unknown else []
        return notes + ([f"Settings in other files, not compared: {unread}."] if unread else [])


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


def corpus_of(trial: Trial) -> tuple[str, str, bool]:
    """Return the corpus of a trial, what of the file says so, and whether it is stated there.

    It is one of ours, `iwslt14_de_en` or `other`, by the data-bin, the languages or the name of the model. Where the
    file names none, the corpus of its language pair, else of En-De, is assumed. Google's wmt16_en_de, which is WMT14's
    training text of the paper, and fairseq's wmt17_en_de count as wmt14_en_de: the second with another text, which is a
    finding.
    """
    commands = [command for command in (trial.training, *trial.others) if command is not None]
    sides = ((command.arguments.get("source_lang"), command.arguments.get("target_lang")) for command in commands)
    languages = next((f"{source}-{target}" for source, target in sides if source and target), "")
    texts = [command.data for command in commands] + [
        str(command.arguments.get(key) or "") for key in ("data", "trainpref", "destdir", "save_dir", "path")
        for command in commands
    ]  # fmt: skip
    texts = [text for text in texts if text]
    for text in texts:
        name = text.lower()
        pair = languages or _pair_of(name)
        if re.search(r"iwslt.?(20)?14", name) and pair in ("de-en", ""):
            return "iwslt14_de_en", text, True
        if re.search(r"iwslt|multi30k|wmt.?(15|18|19|2\d)|opus|ted(?![a-z])", name):
            return "other", text, True
        if re.search(r"wmt.?(20)?1[467]", name) and pair:
            is_papers = pair in METRIC_BY_PAIR and not (pair == "en-fr" and "wmt17" in name)
            return f"wmt14_{pair.replace('-', '_')}" if is_papers else "other", f"{text} ({pair})", True
    architecture = "" if trial.training is None else str(trial.training.arguments.get("arch") or "")
    if "iwslt" in architecture:
        return "other", architecture, True
    pair = languages or next((pair for text in texts if (pair := _pair_of(text.lower()))), "")
    if pair and pair not in METRIC_BY_PAIR:
        return "other", pair, True
    return f"wmt14_{(pair or 'en-de').replace('-', '_')}", texts[0] if texts else "", False


def is_translation(command: FairseqCommand) -> bool:
    """Return whether a command trains or runs a translation by its task; fairseq's default is one."""
    task = command.arguments.get("task")
    return task is None or str(task).startswith(("translation", "$")) or "translation" in str(task)


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


def trained_of(command: FairseqCommand, path: str) -> Trained:
    """Return what a command says of the training that it starts."""
    arguments = command.arguments
    symbols = symbols_of_arguments(arguments, command.num_gpus)
    tokens, words = estimate_tokens(command)
    lines = {symbol: command.line_by_key.get(rule.key, command.line) for symbol, rule in SYMBOL_RULES.items()}
    epochs, updates = arguments.get("max_epoch"), arguments.get("max_update")
    if tokens is None and words:
        each, _ = estimate_tokens(msgspec.structs.replace(command, num_gpus=1))
        needed = max(1, round(PAPER_TOKENS_PER_UPDATE / (each or 1)))
        words += f", and on how many GPUs? Give --num-gpus N (25,000 tokens: about {needed} GPUs of these)"
    return Trained(
        path=path,
        symbols=symbols,
        line_by_symbol=lines | {"data": command.line},
        target_tokens_per_update=tokens,
        tokens_words=words or "neither --max-tokens nor --batch-size is known",
        num_epochs=float(epochs) if isinstance(epochs, int) and epochs and not updates else None,
        data=command.data,
    )


def estimate_tokens(command: FairseqCommand) -> tuple[float | None, str]:
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


def translations_of(
    trial: Trial, path: str, corpus: CorpusSpec, bleus: Sequence[tuple[str, BleuLine]], given: Reported | None = None
) -> tuple[Translation, ...]:
    """Return what a trial's commands say of its test set: averaging, search and scoring; one for each line of BLEU.

    `given` is a score that its caller knows, which counts in place of the file's. Of several definitions of one
    score the paper's counts.
    """
    one = Translation(path=path, testset=corpus.test_testset, role="test")
    scored_line, scorer_metric = None, ""
    for command in trial.others:
        if command.program == "average":
            one = _with_averaging(one, command)
        elif command.program == "generate":
            one = _with_generation(one, command, path)
        elif command.program == "score" and scorer_metric != METRIC_BY_PAIR.get(corpus.language_pair):
            scorer_metric, scored_line = _metric_of_scorer(command), command.line
    if scorer_metric:
        one = msgspec.structs.replace(one, metric=scorer_metric, line=scored_line)
    if given is not None:
        own = next((metric for metric, _ in bleus), "") if not one.metric else ""
        metric = given.metric or one.metric or own or METRIC_BY_PAIR.get(corpus.language_pair, "")
        given = msgspec.structs.replace(given, metric=metric)
        return (msgspec.structs.replace(one, metric=metric, reported=(given,)),)
    scored = []
    for own, logged in bleus:
        is_named = own.startswith("bleu_sacre")  # sacreBLEU signs its lines, others do not
        metric = own if is_named else one.metric or own
        reported = Reported(f"{path}:{logged.line}", metric, logged.value, "")
        scored.append(msgspec.structs.replace(one, metric=metric, reported=(reported,), logged=logged))
    if scored and any(score.metric == METRIC_BY_PAIR.get(corpus.language_pair) for score in scored):
        scored = [msgspec.structs.replace(score, metric="") for score in scored]  # the printed definition is there
    return tuple(scored) or ((one,) if trial.others else ())


def _with_averaging(one: Translation, command: FairseqCommand) -> Translation:
    for key in ("num_update_checkpoints", "num_epoch_checkpoints"):
        number = command.arguments.get(key)
        if isinstance(number, int):
            words = f"last {number} ({key.split('_')[1]}s)"
            return msgspec.structs.replace(one, average=f"last{number}", average_words=words, line=command.line)
    return msgspec.structs.replace(one, average_words="a list of checkpoints", line=command.line)


def _with_generation(one: Translation, command: FairseqCommand, path: str) -> Translation:
    arguments, number = command.arguments, ""
    model = str(arguments.get("path") or "")
    if not one.average_words and model:
        name = model.rsplit("/", 1)[-1]
        averaged = re.search(r"(?:ave?ra?ge?d?|avg)[-_.]?(?:last)?[-_.]?(\d+)?", name.lower())
        if averaged and averaged[1]:
            number = averaged[1]
        elif re.fullmatch(r"checkpoint(_best|_last|_?\d+(_\d+)?)\.pt", name) and not averaged and ":" not in model:
            number = "1"
        one = msgspec.structs.replace(one, average=f"last{number}" if number else "", average_words=name)
    is_sacre = arguments.get("sacrebleu") or arguments.get("scoring") == "sacrebleu"
    is_generate = command.name.startswith(("fairseq-generate", "generate", "fairseq_cli.generate"))
    return msgspec.structs.replace(
        one,
        line=command.line,
        search=search_of_arguments(arguments, path, line=command.line),
        leaves_pieces=is_generate and arguments.get("post_process") is None and arguments.get("scoring") != "none",
        metric="bleu_sacre_13a" if is_sacre else "bleu_fairseq",
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

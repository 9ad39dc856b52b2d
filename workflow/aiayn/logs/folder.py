"""Turns a folder of logs into trainings with their row, their numbers and their findings.

Each logged BLEU is assigned to its training. A generation belongs to the training that saved into its checkpoint's
folder, or to the only training whose log lies beside it. A number carries the name of its definition: the BLEU of
fairseq-generate is `bleu_as_given`, fairseq's arithmetic on the tokens as given, whatever they are; that of
`--eval-bleu` is sacreBLEU's on detokenised tokens.
"""

import json
import math
import posixpath
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from aiayn.logs.logged import (
    Difference,
    LoggedEvaluation,
    LoggedFolder,
    LoggedGeneration,
    LoggedTraining,
    Match,
    PaperRow,
    final_validation,
    language_pair_of,
)
from aiayn.logs.rules import broken, generation_findings, symbol_findings, training_findings
from aiayn.logs.symbols import ROW_SYMBOLS, Symbols, are_equal, is_ours, symbols_of_arguments
from aiayn.logs.types import AveragingLog, GenerationLog, LogFile, TrainingLog
from aiayn.runs.attempts import ATTEMPTS_NAME, read_events

_CHECKPOINT_NUMBER = re.compile(r"checkpoint_?(\d+)(?:_(\d+))?\.pt")
_AVERAGE_IN_NAME = re.compile(r"(?:avg|average|averaged)[._-]?(?:last)?[._-]?(\d+)|last[._-]?(\d+)")


def judge_folder(folder: Path, file_by_path: Mapping[str, LogFile], rows: Sequence[PaperRow]) -> LoggedFolder:
    """Return the trainings and generations of a folder's logs; the first matching row of `rows` is taken.

    Raises:
        RecordError: if an attempts.jsonl beside a log of ours is torn.
    """
    trainings, generations, averagings = [], [], []
    for path, log_file in sorted(file_by_path.items(), key=lambda entry: (entry[0].count("/"), entry[0])):
        for name, entry in entries_by_name(path, log_file).items():
            if isinstance(entry, TrainingLog):
                trainings.append(_judged_training(name, entry, (folder / path).parent, rows))
            elif isinstance(entry, GenerationLog):
                generations.append((name, entry))
            else:
                averagings.append((name, entry))
    evaluations: dict[str, list[LoggedEvaluation]] = {training.path: [] for training in trainings}
    logged: list[LoggedGeneration] = []
    for name, generation in generations:
        training = training_of(name, generation, trainings)
        average = average_of(generation, averagings_near(name, generation, averagings), training)
        judged = LoggedGeneration(path=name, log=generation, training=training, average=average)
        judged = without_copies(msgspec.structs.replace(judged, findings=generation_findings(judged)), logged)
        logged.append(judged)
        if training is not None and (evaluation := evaluation_of(judged)) is not None:
            evaluations[training.path].append(evaluation)
    for training in trainings:
        evaluations[training.path] += validation_bleu(training)
    whole = [msgspec.structs.replace(one, evaluations=tuple(evaluations[one.path])) for one in trainings]
    return LoggedFolder(file_by_path=dict(file_by_path), trainings=tuple(whole), generations=tuple(logged))


def entries_by_name(path: str, log_file: LogFile) -> dict[str, TrainingLog | GenerationLog | AveragingLog]:
    """Return a file's entries by name: its path, with the first line of each if there are several."""
    is_alone = len(log_file.entries) == 1
    return {path if is_alone else f"{path}@{entry.first_line}": entry for entry in log_file.entries}


def _judged_training(name: str, log: TrainingLog, folder: Path, rows: Sequence[PaperRow]) -> LoggedTraining:
    symbols, has_events = symbols_of_arguments(log.arguments, log.num_gpus), False
    if is_ours(log.arguments):
        has_events = (folder / ATTEMPTS_NAME).exists()
    else:
        rows = [row for row in rows if row.scale == "paper"]
    training = LoggedTraining(
        path=name,
        log=log,
        events=read_events(folder) if has_events else None,
        symbols=symbols,
        match=find_row(symbols, language_pair_of(log), rows),
    )
    return msgspec.structs.replace(training, findings=training_findings(training))


def find_row(symbols: Symbols, language_pair: str, rows: Sequence[PaperRow]) -> Match:
    """Return the row whose ROW_SYMBOLS are all the log's; rows that come first win over later ones.

    A symbol that the log lacks cannot match. Without a row that is trained in this language pair, the nearest
    is sought among all.
    """
    candidates = [row for row in rows if language_pair in row.language_pairs]
    values = [symbols.get(name) for name in ROW_SYMBOLS]
    for row in candidates:
        if [row.symbols[name] for name in ROW_SYMBOLS] == values:
            return Match(row, row, ())
    for row in candidates:  # a number may differ in its last digit
        if not _differences(symbols, row):
            return Match(row, row, ())
    if not rows:
        return Match(None, None, ())
    nearest = min(candidates or rows, key=lambda row: _distance(_differences(symbols, row)))
    return Match(None, nearest, tuple(_differences(symbols, nearest)))


def _differences(symbols: Symbols, row: PaperRow) -> list[Difference]:
    return [
        Difference(name, symbols.get(name), row.symbols[name])
        for name in ROW_SYMBOLS
        if name not in symbols or not are_equal(symbols[name], row.symbols[name])
    ]


def _distance(differences: Sequence[Difference]) -> tuple[int, float]:
    """Return how many symbols differ, and by how much the sizes do (sum of the logarithms of their ratios)."""
    reach = 0.0
    for difference in differences:
        found, expected = difference.found, difference.expected
        if isinstance(found, int | float) and isinstance(expected, int | float) and found > 0 and expected > 0:
            reach += abs(math.log(found / expected))
        else:
            reach += 1.0
    return len(differences), reach


def training_of(name: str, generation: GenerationLog, trainings: Sequence[LoggedTraining]) -> LoggedTraining | None:
    """Return the training that a generation is of: by its checkpoint's folder, else the only one beside its log.

    Of several that saved into that folder it is the last one above it in its own file, as a job writes them.
    """
    file = _file_of(name, generation)
    above = [
        one for one in trainings if _file_of(one.path, one.log) == file and one.log.first_line < generation.first_line
    ]
    if not generation.model_path and above:
        return above[-1]
    trainings = [one for index, one in enumerate(trainings) if all(one.log != it.log for it in trainings[:index])]
    beside = [one for one in trainings if posixpath.dirname(one.path) == posixpath.dirname(name)]
    if generation.model_path:
        model_folder = posixpath.normpath(posixpath.dirname(generation.model_path.split(":")[0]) or ".")
        saved_above = [one for one in above if _has_saved_into(one, model_folder)]
        if saved_above:
            return saved_above[-1]
        saved = [one for one in trainings if _has_saved_into(one, model_folder)]
        near = [one for one in saved if one in beside]
        if len(saved) == 1 or len(near) == 1:
            return (near or saved)[0]
        if saved:
            return None
    return next((found[0] for found in (above, beside) if len(found) == 1), None)


def _file_of(name: str, log: TrainingLog | GenerationLog | AveragingLog) -> str:
    """Return the file of an entry's name; the name ends in the entry's line if the file holds several."""
    return name.removesuffix(f"@{log.first_line}")


def _has_saved_into(training: LoggedTraining, model_folder: str) -> bool:
    """Return whether one path is the other or its end: a log's paths are relative to where its command started."""
    first, second = posixpath.normpath(str(training.log.arguments.get("save_dir"))), model_folder
    if "." in (first, second):
        return first == second
    return first == second or first.endswith(f"/{second}") or second.endswith(f"/{first}")


def averagings_near(
    name: str, generation: GenerationLog, averagings: Sequence[tuple[str, AveragingLog]]
) -> list[AveragingLog]:
    """Return the averagings that may have made a generation's checkpoint: the last one above it in its own file.

    Without one there, those of the files beside it; without any, all.
    """
    made = [(at, one) for at, one in averagings if _is_average_of(one, generation)]
    file = _file_of(name, generation)
    above = [one for at, one in made if _file_of(at, one) == file and one.first_line < generation.first_line]
    beside = [one for at, one in made if posixpath.dirname(at) == posixpath.dirname(name)]
    return above[-1:] or beside or [one for _, one in made]


def _is_average_of(averaging: AveragingLog, generation: GenerationLog) -> bool:
    name = posixpath.basename(generation.model_path)
    return bool(name) and posixpath.basename(averaging.output_path) == name


def average_of(generation: GenerationLog, averagings: Sequence[AveragingLog], training: LoggedTraining | None) -> str:
    """Return `last5` and so on, from the log of averaging or the checkpoint's name; else the name itself."""
    name = posixpath.basename(generation.model_path)
    made = [one for one in averagings if _is_average_of(one, generation)]
    exact = [one for one in made if one.output_path == generation.model_path]
    if len(sizes := {len(one.input_paths) for one in exact or made}) == 1:
        return f"last{sizes.pop()}"
    if found := _AVERAGE_IN_NAME.search(name):
        return f"last{found[1] or found[2]}"
    number = _CHECKPOINT_NUMBER.fullmatch(name)
    if name == "checkpoint_last.pt":
        return "last1"
    if number is not None and training is not None and training.log.epochs:
        last = {str(training.log.epochs[-1].epoch), str(training.log.last_update)}
        return "last1" if (number[2] or number[1]) in last else name
    return name or "unknown"


def without_copies(judged: LoggedGeneration, earlier: Sequence[LoggedGeneration]) -> LoggedGeneration:
    """Return a generation; with a finding that keeps its BLEU out if an earlier one of the training is the same."""
    copied = next((one for one in earlier if judged.training is not None and _is_copy(judged, one)), None)
    if copied is None:
        return judged
    finding = broken("one-log-a-generation", line=judged.log.first_line, others=copied.path)
    return msgspec.structs.replace(judged, findings=(*judged.findings, finding))


def _is_copy(one: LoggedGeneration, other: LoggedGeneration) -> bool:
    """Return whether two generations of one training have the same content, wherever it is in a file.

    Without a score and a checkpoint's name, as in logs of other programs, two alike may be of different checkpoints.
    """
    if one.log.bleu is None and not one.log.model_path:
        return False

    def content(log: GenerationLog) -> GenerationLog:
        bleu = None if log.bleu is None else msgspec.structs.replace(log.bleu, line=0)
        return msgspec.structs.replace(log, first_line=0, last_line=0, bleu=bleu)

    return one.training is other.training and content(one.log) == content(other.log)


def evaluation_of(judged: LoggedGeneration) -> LoggedEvaluation | None:
    """Return the BLEU of a generation; None if it has none, or a rule keeps it out."""
    bleu = judged.log.bleu
    if bleu is None or judged.training is None or any(finding.severity == "error" for finding in judged.findings):
        return None
    apart = [finding.label for finding in judged.findings if finding.severity == "apart"]
    return LoggedEvaluation(
        path=judged.path,
        role={"valid": "dev", "test": "test"}.get(bleu.subset, bleu.subset),
        metric=metric_of_generation(judged.log),
        value=bleu.value,
        settings="; ".join(apart),
        findings=judged.findings,
    )


def metric_of_generation(log: GenerationLog) -> str:
    """Return the name of a generation's BLEU by what it was computed with and on.

    `bleu_as_given` is fairseq's arithmetic on the data's tokens; `bleu_sacre_13a` sacreBLEU's on detokenised text;
    `bleu_sacre_on_tokens` sacreBLEU's on tokens that are not known to be joined to text; `bleu_mlperf` is that
    of MLPerf's submissions, without case.
    """
    arguments = log.arguments
    if log.bleu is not None and log.bleu.name == "bleu_score":
        return "bleu_mlperf"
    if log.bleu is None or log.bleu.name == "BLEU4":
        return "bleu_as_given"
    is_joined = bool(arguments.get("tokenizer")) or arguments.get("bpe") in ("sentencepiece", "gpt2")
    is_13a = arguments.get("sacrebleu_tokenizer") in (None, "13a") and not arguments.get("sacrebleu_lowercase")
    return "bleu_sacre_13a" if is_joined and is_13a else "bleu_sacre_on_tokens"


def validation_bleu(training: LoggedTraining) -> list[LoggedEvaluation]:
    """Return the BLEU of `--eval-bleu` at the last update, unless it is one of pieces."""
    arguments, final, row = training.log.arguments, final_validation(training.log), training.match.row
    if final is None or final.bleu is None or not arguments.get("eval_bleu_remove_bpe"):
        return []
    is_joined = arguments.get("eval_bleu_detok") not in (None, "space") and not arguments.get("eval_tokenized_bleu")
    try:
        search = json.loads(str(arguments.get("eval_bleu_args") or "{}"))
    except ValueError:
        search = {}
    found: Symbols = {"beam_size": search.get("beam", 1), "length_penalty_alpha": float(search.get("lenpen", 1.0))}
    findings = tuple(symbol_findings(found, row.decoding if row else {}))
    return [
        LoggedEvaluation(
            path=training.path,
            role="dev",
            metric="bleu_sacre_13a_of_detokenised" if is_joined else "bleu_sacre_on_tokens",
            value=final.bleu,
            settings="; ".join(finding.label for finding in findings),
            findings=findings,
        )
    ]

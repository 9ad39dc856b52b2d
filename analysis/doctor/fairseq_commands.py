r"""Reads fairseq's commands in a file: the arguments of each, named as in a printed Namespace, with defaults filled in.

Nothing is run. `shlex` splits each line, with the lines that a `\` at its end joins to it. Values that a shell would
work out (`$LR`, `$(...)`) are refused by name where they decide anything: `bash -x` prints a script's commands with
all of them filled in. Of a path the file's name alone counts, so what precedes it may be a variable.

A flag that is absent has the default of fairseq 0.12 (fairseq_options.csv) or what its `--arch` sets
(fairseq_architectures.csv); both tables are made from the installed fairseq by tests/fairseq_options.py. The result
is the mapping that `analysis.logs.arguments` reads off a log, so that one table leads from either to the symbols.
"""

import csv
import functools
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

import msgspec

from aiayn.errors import CommandError
from analysis.logs.arguments import parse_value
from analysis.logs.types import Argument, BleuLine, LogStruct
from analysis.outputs.system_output import read_text

OPTIONS_PATH = Path(__file__).with_name("fairseq_options.csv")
ARCHITECTURES_PATH = Path(__file__).with_name("fairseq_architectures.csv")
# What fairseq takes from the training's own options: the keys whose defaults count for an absent flag.
DEFAULTED_KEYS = (
    "task", "criterion", "lr_scheduler", "lr", "clip_norm", "update_freq", "max_update", "max_epoch", "label_smoothing",
    "adam_betas", "adam_eps", "weight_decay", "warmup_updates", "warmup_init_lr", "fp16", "bf16",
    "memory_efficient_fp16", "seed",
)  # fmt: skip
GENERATION_KEYS = ("beam", "lenpen", "max_len_a", "max_len_b", "gen_subset", "sacrebleu", "scoring", "post_process")
OLDER_FLAGS = {"--min-lr": 1, "--raw-text": 0, "--lazy-load": 0, "--relu-dropout": 1, "--no-c10d": 0}
_RENAMED = {"max_sentences": "batch_size", "remove_bpe": "post_process", "relu_dropout": "activation_dropout"}
_MAX_CHARACTERS = 4_000_000
_CONTINUED = re.compile(r"\\[ \t]*$")  # blanks after it are a slip in pasting
_PROMPT = re.compile(r"^\s*(?:\$|%|>|\+)\s+(?=\S)")  # `+` is that of `bash -x`
_VARIABLE = re.compile(r"\$[\w{(@*]|`")
_SUBSTITUTION = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`")
# Keys whose values are folders, files or names: what a variable in them stands for decides nothing here.
_FREE_KEYS = {
    "data", "path", "save_dir", "tensorboard_logdir", "log_file", "user_dir", "seed", "port", "results_path", "inputs",
    "output", "trainpref", "validpref", "testpref", "destdir", "srcdict", "tgtdict", "restore_file", "num_workers",
    "source_lang", "target_lang", "distributed_port", "distributed_init_method", "distributed_rank", "device_id",
    "wandb_project", "sys", "ref", "log_interval", "workers", "bpe_codes", "checkpoint_suffix", "task", "gen_subset",
}  # fmt: skip
_OTHER_PROGRAMS = {"cat", "vim", "vi", "less", "cp", "mv", "rm", "echo", "grep", "chmod", "ls", "cd"}

Program = Literal["train", "generate", "preprocess", "average", "score"]
_PROGRAMS: dict[str, Program] = {
    "fairseq-train": "train", "fairseq-hydra-train": "train", "train.py": "train", "hydra_train.py": "train",
    "fairseq_cli.train": "train", "fairseq.train": "train", "fairseq-generate": "generate", "generate.py": "generate",
    "fairseq_cli.generate": "generate", "fairseq-interactive": "generate", "interactive.py": "generate",
    "fairseq_cli.interactive": "generate", "fairseq-preprocess": "preprocess", "preprocess.py": "preprocess",
    "fairseq_cli.preprocess": "preprocess", "average_checkpoints.py": "average", "average_checkpoints": "average",
}  # fmt: skip
SPLITTING = "compound_split_bleu.sh"
# Metrics of the programs that score; fairseq-generate's own BLEU is `bleu_fairseq`.
METRIC_BY_SCORER = {
    SPLITTING: "bleu_tok_compound_split", "sacrebleu": "bleu_sacre_13a",
    "sacrebleu.sh": "bleu_sacre_13a", "multi-bleu.perl": "bleu_tok_moses", "multi-bleu-detok.perl": "bleu_sacre_13a",
    "fairseq-score": "bleu_fairseq", "score.py": "bleu_fairseq", "fairseq_cli.score": "bleu_fairseq",
}  # fmt: skip
_PROGRAMS |= dict.fromkeys(METRIC_BY_SCORER, "score")
_SBATCH = re.compile(r"^\s*#SBATCH\s+(.*)$", re.MULTILINE)
_PER_NODE = re.compile(r"--(?:gres[= ]gpu|gpus-per-node[= ])(?::?[^\s:,=\d][^\s:,]*)?:?(\d+)")
_NODES = re.compile(r"(?:--nodes[= ]|-N ?)(\d+)(?:\s|$)")
_GPUS = re.compile(r"(?:--gpus[= ](?:\w+:)?)(\d+)")
_BLEU = re.compile(
    r"(?P<name>BLEU\S*(?: score)?)\s*=\s*(?P<value>\d+(?:\.\d+)?)\b,?\s*(?P<precisions>[\d./]+)\s*"
    r"\(BP ?= ?(?P<bp>[\d.]+),? ratio ?= ?(?P<ratio>[\d.]+),? "
    r"\w+ ?= ?(?P<hypothesis>\d+),? \w+ ?= ?(?P<reference>\d+)\)"
)


class Word(NamedTuple):
    """A word of a command, and its line, from 1."""

    text: str
    line: int


class FairseqCommand(LogStruct, frozen=True, kw_only=True):
    """One command. `arguments` are as of a Namespace, `line_by_key` has those that were given.

    `unread` are files of settings that are not read; `unknown` flags that fairseq 0.12 does not have.
    """

    program: Program
    name: str
    line: int
    arguments: dict[str, Argument]
    line_by_key: dict[str, int]
    data: str
    num_gpus: int | None
    unread: tuple[str, ...]
    unknown: tuple[str, ...]


class CommandFile(LogStruct, frozen=True, kw_only=True):
    """The content of a file: fairseq's commands in their order, and lines of BLEU, each with its metric."""

    commands: tuple[FairseqCommand, ...]
    bleus: tuple[tuple[str, BleuLine], ...]


class _Option(msgspec.Struct, frozen=True):
    key: str
    num_values: str
    default: str


def read_command_file(path: Path) -> CommandFile:
    """Return fairseq's commands and the BLEU lines of a file.

    Raises:
        ScoreError: if it is no text.
        CommandError: if it is cut, or holds neither a training nor a generation of fairseq's.
    """
    text = read_text(path, expected="a script or a command of fairseq-train or fairseq-generate")
    if len(text) > _MAX_CHARACTERS:
        raise CommandError(f"{path}: {len(text):,} characters; expected a script; for a log, give its folder as WHAT")
    commands = list(_fairseq_commands(text, str(path)))
    if not any(command.program in ("train", "generate") for command in commands):
        commented = [
            number for number, line in enumerate(text.split("\n"), 1)
            if re.match(r"\s*#.*(?:fairseq-(?:train|generate)|\b(?:train|generate)\.py\b.*--)", line)
        ]  # fmt: skip
        where = f"it is in comments alone (line {commented[0]})" if commented else "the file has none"
        raise CommandError(
            f"{path}: no command fairseq-train or fairseq-generate with flags: {where}; give a file with the command "
            "as it is run (`bash -x SCRIPT` prints it), such as "
            "`fairseq-train data-bin/wmt16_en_de_bpe32k --arch transformer_wmt_en_de ...`"
        )
    return CommandFile(commands=tuple(commands), bleus=tuple(_bleus(text)))


def _fairseq_commands(text: str, place: str) -> Iterator[FairseqCommand]:
    sbatch_gpus = _slurm_gpus(" ".join(_SBATCH.findall(text)))
    visible: int | None = None
    has_split = False  # compounds, by get_ende_bleu.sh's substitution in the script itself
    for words in _split_commands(text, place):
        has_split = has_split or any("##AT##" in word.text for word in words)
        for word in words:
            if found := re.fullmatch(r"CUDA_VISIBLE_DEVICES=(\d+(?:\s*,\s*\d+)*)?.*", word.text):
                visible = len(found[1].split(",")) if found[1] else None
        for index, word in enumerate(words):
            name = PurePosixPath(word.text.replace("\\", "/")).name
            program = _PROGRAMS.get(name)
            if program is None or not _is_command(program, words, index):
                continue
            num_gpus = _num_gpus(words[:index]) or visible or sbatch_gpus
            command = parse_command(program, name, words[index + 1 :], num_gpus, place=place, line=word.line)
            is_plain_score = METRIC_BY_SCORER.get(name) == "bleu_fairseq" and not command.arguments.get("sacrebleu")
            yield msgspec.structs.replace(command, name=SPLITTING) if is_plain_score and has_split else command
            break


def _split_commands(text: str, place: str) -> Iterator[list[Word]]:
    """Yield the words of each command, with its continued lines; comments are left out.

    Raises:
        CommandError: if the text ends within a command: it was cut.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
    first = 0
    while first < len(lines):
        last = first
        logical = [_PROMPT.sub("", lines[first], count=1)]
        while _CONTINUED.search(logical[-1]) and not logical[-1].lstrip().startswith("#"):
            last += 1
            if last == len(lines):
                raise CommandError(
                    f"{place}:{last}: the file ends in a continued line (`\\`): is it cut? Give the whole command, "
                    f"or remove that `\\`"
                )
            logical.append(lines[last])
        # a blank before each line feed: the lexer's number is that of the line in which a word ends
        joined = " \n".join(_CONTINUED.sub("", line) for line in logical)
        joined = _SUBSTITUTION.sub(lambda inner: re.sub(r"[\s;|&<>]", "", inner[0]), joined)
        lexer = shlex.shlex(re.sub(r"(?:^|(?<=\s))#[^\n]*", "", joined), posix=True, punctuation_chars=";|&<>")
        lexer.whitespace_split, lexer.commenters = True, ""
        words: list[Word] = []
        try:
            for token in lexer:
                if token.strip(";|&"):
                    words.append(Word(token, first + lexer.lineno))
                else:
                    yield words
                    words = []
        except ValueError as error:  # a quotation that is not closed, or an apostrophe of prose
            if any(word.text.startswith("-") for word in words):
                raise CommandError(
                    f"{place}:{first + 1}: a quotation of this command is not closed in its line: is the file cut? "
                    "Give the whole command, its lines joined by `\\`"
                ) from error
        yield words
        first = last + 1


def _is_command(program: Program, words: list[Word], index: int) -> bool:
    """Return whether a word is a command of fairseq's, not prose or another program of that name."""
    flags = [word.text.split("=")[0] for word in words[index + 1 :] if word.text.startswith("-")]
    if _OTHER_PROGRAMS & {word.text for word in words[:index]}:
        return False
    if program in ("average", "preprocess"):
        return bool({"--inputs", "--trainpref", "--destdir", "--only-source"} & set(flags))
    if program == "score" or "hydra" in words[index].text:
        return True
    if words[index].text.endswith(".py"):  # others have a train.py too
        return bool({"--arch", "-a", "--task", "--max-tokens", "--path", "--lr-scheduler"} & set(flags))
    return len(flags) > 1 or (len(flags) == 1 and len(words) > index + 2)


def parse_command(
    program: Program, name: str, words: Sequence[Word], num_gpus: int | None, *, place: str = "", line: int = 1
) -> FairseqCommand:
    """Return a command from its words, without its name; defaults filled in.

    `num_gpus` is the number that a launcher starts or makes visible.

    Raises:
        CommandError: if a variable stands where its value decides.
    """
    if "hydra" in name:
        return _parse_hydra(name, line, words, num_gpus, place)
    value_by_key, line_by_key, positional, unknown = _given(program, words, place)
    for word in positional[1:] if "arch" in value_by_key or program != "train" else positional:
        if word.text.startswith("$") and program in ("train", "generate"):
            raise _variable_error(place, word.line, word.text)
    arguments = {key: parse_value(value) for key, value in value_by_key.items()}
    if program in ("train", "generate"):
        arguments = _with_defaults(program, arguments)
    if isinstance(size := arguments.get("distributed_world_size"), int):
        num_gpus = max(size, num_gpus or 0)
    if value_by_key.get("cpu") == "True":
        num_gpus = 1
    return FairseqCommand(
        program=program, name=name, line=line, arguments=arguments, line_by_key=line_by_key,
        data=positional[0].text if positional else "", num_gpus=num_gpus, unread=(),
        unknown=tuple(dict.fromkeys(unknown)),
    )  # fmt: skip


def _given(
    program: Program, words: Sequence[Word], place: str
) -> tuple[dict[str, str], dict[str, int], list[Word], list[str]]:
    """Return the values and lines of the flags that are given by key, words that are no flags, and unknown flags."""
    options = read_options()[program if program in ("generate", "preprocess") else "train"]
    value_by_key: dict[str, str] = {}
    line_by_key: dict[str, int] = {}
    positional: list[Word] = []
    unknown: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        flag, equals, value = word.text.partition("=")
        if not word.text.strip("<>"):  # a redirection, and its file
            index += 1
            continue
        if not re.match(r"-{1,2}[A-Za-z]", flag):
            positional.append(word)
            continue
        option = options.get(flag)
        if option is None:
            older = OLDER_FLAGS.get(flag)
            if older is None and program in ("train", "generate"):
                unknown.append(flag)
            key = flag.lstrip("-").replace("-", "_")
            option = _Option(key, "0" if older == 0 else "?" if older is None else "1", "")
        key = _RENAMED.get(option.key, option.key)
        if not equals:
            value, index = _values(words, index, option.num_values)
        if key == "path":
            value = value.rsplit("/", 1)[-1] if _VARIABLE.search(value) else value
        if _VARIABLE.search(value):
            if key not in _FREE_KEYS and program != "preprocess":
                raise _variable_error(place, word.line, f"{flag} {value}")
            value = "None" if key in ("task", "gen_subset") else value
        value_by_key[key], line_by_key[key] = value, word.line
    return value_by_key, line_by_key, positional, unknown


def _variable_error(place: str, line: int, text: str) -> CommandError:
    return CommandError(
        f"{place}:{line}: {text}: the value of a variable is not known here; write the value itself, or give what "
        "`bash -x SCRIPT` prints: the commands with their values"
    )


def _values(words: Sequence[Word], index: int, num_values: str) -> tuple[str, int]:
    """Return a flag's value and the place after it; a negative number is a value, another dash a flag."""

    def is_value(place: int) -> bool:
        return place < len(words) and (
            not words[place].text.startswith("-") or re.fullmatch(r"-[\d.]+(e-?\d+)?", words[place].text) is not None
        )

    if num_values == "0" or not is_value(index):
        return "True", index
    if num_values == "*":
        end = index
        while is_value(end):
            end += 1
        return " ".join(word.text for word in words[index:end]), end
    return words[index].text, index + 1


def _parse_hydra(name: str, line: int, words: Sequence[Word], num_gpus: int | None, place: str) -> FairseqCommand:
    """Return a command of hydra's from its overrides, `group.key=value`; its config file is not read.

    Without a config file, settings that are not given have fairseq's defaults.
    """
    arguments: dict[str, Argument] = {}
    line_by_key, unread = {}, []
    for index, word in enumerate(words):
        found = re.match(r"\+{0,2}(?:[\w/]+\.)*([\w/]+)=(.*)", word.text)
        if word.text.startswith("--config"):
            flag, _, value = word.text.partition("=")
            unread.append(
                f"{flag.lstrip('-')}: {value or ''.join(after.text for after in words[index + 1 : index + 2])}"
            )
        elif found:
            key = {"_name": "arch", "model": "arch", "optimizer": "optimizer"}.get(found[1], found[1])
            key = _RENAMED.get(key, key)
            if _VARIABLE.search(found[2]) and key not in _FREE_KEYS:
                raise _variable_error(place, word.line, word.text)
            arguments[key], line_by_key[key] = parse_value(found[2]), word.line
    if not unread:
        arguments = _with_defaults("train", arguments)
    size, nodes = arguments.get("distributed_world_size"), arguments.get("nprocs_per_node")
    return FairseqCommand(
        program="train", name=name, line=line, arguments=arguments, line_by_key=line_by_key,
        data=str(arguments.get("data") or ""), num_gpus=size if isinstance(size, int) else num_gpus or (
            nodes if isinstance(nodes, int) else None
        ), unread=tuple(unread), unknown=(),
    )  # fmt: skip


def _with_defaults(program: Program, given: dict[str, Argument]) -> dict[str, Argument]:
    options = {option.key: option for option in read_options()[program].values()}
    keys = DEFAULTED_KEYS if program == "train" else GENERATION_KEYS
    arguments = {key: parse_value(options[key].default) if options[key].default else None for key in keys}
    if program == "train":
        preset = dict(read_architectures().get(str(given.get("arch")), {}))
        follows = preset.pop("decoder_follows", False)
        arguments |= preset
        if follows is True:  # a width that is given for the encoder is the decoder's too
            arguments |= {
                f"decoder_{key}": given[f"encoder_{key}"]
                for key in ("embed_dim", "ffn_embed_dim")
                if f"encoder_{key}" in given
            }
    arguments |= given
    if program == "train" and "warmup_updates" not in given and arguments.get("lr_scheduler") != "inverse_sqrt":
        arguments["warmup_updates"] = 0  # the default of the others
    return arguments


@functools.cache
def read_options() -> dict[str, dict[str, _Option]]:
    """Return the options of fairseq 0.12 by command and flag."""
    options: dict[str, dict[str, _Option]] = {}
    with OPTIONS_PATH.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            option = _Option(row["key"], row["num_values"], row["default"])
            options.setdefault(row["program"], {})[row["flag"]] = option
    return options


@functools.cache
def read_architectures() -> dict[str, dict[str, Argument]]:
    """Return what each `--arch` of fairseq's transformer sets; `decoder_follows`: its widths are the encoder's."""
    with ARCHITECTURES_PATH.open(encoding="utf-8", newline="") as lines:
        return {
            row.pop("arch"): {key: parse_value(value) for key, value in row.items()} for row in csv.DictReader(lines)
        }


def _num_gpus(launcher: Sequence[Word]) -> int | None:
    """Return how many GPUs a launcher starts; None if it does not say."""
    text = " ".join(word.text for word in launcher)
    if per_node := re.search(r"--nproc[-_]per[-_]node[= ](\d+)", text):
        nodes = re.search(r"--nnodes[= ](\d+)", text)
        return int(per_node[1]) * (int(nodes[1]) if nodes else 1)
    return _slurm_gpus(text) if launcher and launcher[0].text in ("srun", "salloc") else None


def _slurm_gpus(flags: str) -> int | None:
    if found := _GPUS.search(flags):
        return int(found[1])
    if found := _PER_NODE.search(flags):
        nodes = _NODES.search(flags)
        return int(found[1]) * (int(nodes[1]) if nodes else 1)
    return None


def _bleus(text: str) -> Iterator[tuple[str, BleuLine]]:
    """Yield the lines of BLEU in the file, as fairseq, multi-bleu.perl and sacreBLEU print them."""
    for number, line in enumerate(text.split("\n"), 1):
        if found := _BLEU.search(line):
            name = found["name"]
            is_sacre = "|" in name or "BP = " in line
            metric = (
                ("bleu_sacre_intl" if "tok:intl" in name else "bleu_sacre_13a") if is_sacre
                else "bleu_fairseq" if name.startswith("BLEU4") else "bleu_tok_moses"
            )  # fmt: skip
            if is_sacre and re.search(r"case[:.]lc", name):
                metric += "_lc"
            yield metric, BleuLine(
                line=number, subset="test", beam_size=0, name="BLEU", value=float(found["value"]),
                brevity_penalty=float(found["bp"]), hypothesis_length=int(found["hypothesis"]),
                reference_length=int(found["reference"]),
            )  # fmt: skip

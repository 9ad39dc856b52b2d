"""Logs as fairseq prints them, with numbers of our own: every version's form, `simple`, `tqdm` and
`json`.

The forms are those of the public logs that README.md names. `TrainingText` is a complete training
of base at the paper's scale; a test changes one thing of it. Losses are such that perplexities can
be checked: 2 bits a subword are 4.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import msgspec

from aiayn.runs.attempts import Ended, Started

Form = Literal["print", "namespace", "config"]
LogFormat = Literal["simple", "tqdm", "json"]
MODEL = (
    "TransformerModel(\n  (encoder): TransformerEncoder(\n    (dropout_module): FairseqDropout()\n "
    " )\n)"
)

# Arguments of base (Table 3), as `fairseq-train --arch transformer_wmt_en_de ...` prints them, and as
# `aiayn train` prints them.
_ARGUMENTS = json.loads(Path(__file__).with_name("base_arguments.json").read_text(encoding="utf-8"))
BASE: dict[str, Any] = _ARGUMENTS["base"]
OURS: dict[str, Any] = _ARGUMENTS["ours"]
# The groups into which later versions put them; the model's is a Namespace of all (fairseq 1.0.0a0
# to 0.12.3).
GROUPS: dict[str, tuple[str, ...]] = {
    "common": ("seed", "cpu", "fp16", "log_format", "log_interval"),
    "distributed_training": ("distributed_world_size", "distributed_rank", "device_id"),
    "dataset": ("max_tokens", "valid_subset", "validate_interval", "disable_validation"),
    "optimization": ("max_epoch", "max_update", "clip_norm", "update_freq", "lr"),
    "checkpoint": ("save_dir", "save_interval", "save_interval_updates", "patience"),
}


def namespace(arguments: Mapping[str, Any]) -> str:
    """Return arguments as argparse prints them."""
    return (
        "Namespace("
        + ", ".join(f"{key}={value!r}" for key, value in sorted(arguments.items()))
        + ")"
    )


def config(arguments: Mapping[str, Any]) -> str:
    """Return arguments as OmegaConf's config is printed: groups, with the model's as a Namespace."""
    groups = []
    for name, keys in GROUPS.items():
        values = ", ".join(f"'{key}': {arguments[key]!r}" for key in keys if key in arguments)
        groups.append(f"'{name}': {{'_name': None, {values}}}")
    groups.append(
        "'generation': {'_name': None, 'beam': 5, 'max_len_a': 0.0, 'max_len_b': 200, 'lenpen':"
        " 1.0}"
    )
    groups.append(f"'model': {namespace(arguments)}")
    for name, key in (("task", "task"), ("criterion", "criterion"), ("optimizer", "optimizer")):
        groups.append(f"'{name}': {{'_name': {arguments.get(key)!r}}}")
    groups.append(f"'lr_scheduler': {{'_name': {arguments.get('lr_scheduler')!r}}}")
    return "{'_name': None, " + ", ".join(groups) + ", 'bpe': None, 'tokenizer': None}"


@dataclass(frozen=True)
class TrainingText:
    """A training's log: `num_epochs` epochs of equal length, a validation at the end of each,
    `done` at last.
    """

    form: Form = "namespace"
    log_format: LogFormat = "simple"
    arguments: Mapping[str, Any] = field(default_factory=lambda: dict(BASE))
    num_epochs: int = 4
    first_epoch: int = 1
    loaded: str = ""
    final_nll_bits: float = 2.0
    num_parameters: int = 63_102_976
    num_train_pairs: int = 4_500_966
    num_valid_pairs: int = 3000
    vocabulary_size: int = 37_000
    gpu: str = "Tesla P100-SXM2-16GB"
    seconds: float | None = None
    is_done: bool = True
    lines_per_epoch: int = 2

    def changed(self, **arguments: Any) -> "TrainingText":
        """Return the same training with other arguments."""
        return replace(self, arguments={**self.arguments, **arguments})

    @property
    def updates_per_epoch(self) -> int:
        """How many updates an epoch has: equal parts of max_update."""
        return int(self.arguments["max_update"] or 100_000) // (
            self.first_epoch - 1 + self.num_epochs
        )

    def text(self) -> str:
        """Return the whole log."""
        return "\n".join(self.lines()) + "\n"

    def lines(self) -> list[str]:
        """Return the log line by line."""
        lines = self.start_lines()
        for epoch in range(self.first_epoch, self.first_epoch + self.num_epochs):
            lines += self.epoch_lines(epoch)
        if self.is_done:
            seconds = self.seconds
            if seconds is None:  # as `wall` states it
                seconds = (self.first_epoch - 1 + self.num_epochs) * self.updates_per_epoch * 0.432
            lines.append(
                self._tagged("fairseq_cli.train", f"done training in {seconds:.1f} seconds")
            )
        return lines

    def start_lines(self) -> list[str]:
        """Return what is printed before the first update."""
        printed = config(self.arguments) if self.form == "config" else namespace(self.arguments)
        source, target = (
            self.arguments.get("source_lang") or "en",
            self.arguments.get("target_lang") or "de",
        )
        world, data = (
            self.arguments.get("distributed_world_size", 1),
            self.arguments.get("data", "data-bin"),
        )
        count = f"{self.num_parameters:,}" if self.form == "config" else f"{self.num_parameters}"
        shared = " shared" if self.form == "config" else ""
        lines = [self._tagged("fairseq_cli.train", printed, is_bare=self.form == "print")]
        for language in (source, target):
            text = f"[{language}] dictionary: {self.vocabulary_size} types"
            lines.append(self._tagged("fairseq.tasks.translation", text))
        lines.append(self._loaded(f"{data}/valid.{source}-{target}.{source}", self.num_valid_pairs))
        lines += self._tagged("fairseq_cli.train", MODEL, is_bare=self.form == "print").split("\n")
        text = f"num.{shared} model params: {count} (num. trained: {count})"
        lines.append(self._tagged("fairseq_cli.train", text))
        if self.form != "print" and self.gpu:
            text = (
                f"rank   0: capabilities =  6.0  ; total memory = 15.899 GB ; name = {self.gpu:<40}"
            )
            lines.append(self._tagged("fairseq.utils", text))
        devices = "GPUs" if self.form == "print" else "devices (GPUs/TPUs)"
        lines.append(self._tagged("fairseq_cli.train", f"training on {world} {devices}"))
        no = "No" if self.form == "config" else "no"
        last = f"{self.arguments['save_dir']}/checkpoint_last.pt"
        lines.append(
            self._tagged("fairseq.trainer", self.loaded or f"{no} existing checkpoint found {last}")
        )
        lines.append(
            self._tagged("fairseq.trainer", f"loading train data for epoch {self.first_epoch}")
        )
        return [
            *lines,
            self._loaded(f"{data}/train.{source}-{target}.{source}", self.num_train_pairs),
        ]

    def epoch_lines(self, epoch: int) -> list[str]:
        """Return an epoch: statistics within it, its validation and its end, in the version's
        order.
        """
        size = self.updates_per_epoch
        first, last = (epoch - 1) * size, epoch * size
        left = self.first_epoch + self.num_epochs - 1 - epoch
        nll = self.final_nll_bits + 0.5 * left
        lines = [
            self._inner(epoch, first + size * (index + 1) // (self.lines_per_epoch + 1), nll + 0.25)
            for index in range(self.lines_per_epoch)
        ]
        validation = self._statistics("valid", epoch, last, nll)
        end = self._statistics("train", epoch, last, nll - 0.1)
        return [*lines, end, validation] if self.form == "print" else [*lines, validation, end]

    def _inner(self, epoch: int, update: int, nll: float) -> str:
        values = self._values(update, nll) | {
            "lr": self._rate(update),
            "gnorm": "0.4",
            "wall": f"{update * 0.432:g}",
        }
        if self.log_format == "json":
            printed = json.dumps(
                {"epoch": epoch, "update": round(update / self.updates_per_epoch, 3), **values}
            )
            return self._tagged("train_inner", printed, is_bare=self.form == "print")
        words = ", ".join(f"{key}={value}" for key, value in values.items())
        if self.log_format == "tqdm":
            bar = "| " if self.form == "print" else ""
            return (
                f"\r{bar}epoch {epoch:03d}:  50%|#####     | 5/10 [00:05<00:05,  1.0it/s,"
                f" {words}]\r"
            )
        text = (
            f"epoch {epoch:03d}: {update % self.updates_per_epoch:6d} /"
            f" {self.updates_per_epoch} {words}"
        )
        return self._tagged("train_inner", text)

    def _rate(self, update: int) -> str:
        """Return the rate that inverse_sqrt prints; others print one rate."""
        peak, warmup = self.arguments.get("lr"), self.arguments.get("warmup_updates") or 0
        peak = peak[0] if isinstance(peak, list) else peak
        if self.arguments.get("lr_scheduler") == "equation_3":
            peak = (self.arguments["schedule_d_model"] * warmup) ** -0.5
        if not isinstance(peak, int | float) or not warmup:
            return f"{peak}"
        return f"{peak * min(update / warmup, (warmup / update) ** 0.5):.6g}"

    def _statistics(self, kind: str, epoch: int, update: int, nll: float) -> str:
        values = self._values(update, nll)
        if kind == "train":
            values |= {
                "lr": self._rate(update),
                "gnorm": "0.4",
                "train_wall": "400",
                "wall": f"{update * 0.432:g}",
            }
        if self.log_format == "json":
            printed = {"epoch": epoch, **{f"{kind}_{key}": value for key, value in values.items()}}
            return self._tagged(kind, json.dumps(printed), is_bare=self.form == "print")
        words = " | ".join(f"{key} {value}" for key, value in values.items())
        subset = " | valid on 'valid' subset" if kind == "valid" else ""
        return self._tagged(kind, f"epoch {epoch:03d}{subset} | {words}")

    def _values(self, update: int, nll: float) -> dict[str, str]:
        return {
            "loss": f"{nll + 1.6:.3f}",
            "nll_loss": f"{nll:.3f}",
            "ppl": f"{2**nll:.2f}",
            "wps": "57000",
            "ups": "2.3",
            "wpb": "24900.5",
            "bsz": f"{self.num_train_pairs / self.updates_per_epoch:.1f}",
            "num_updates": str(update),
        }

    def _loaded(self, path: str, number: int) -> str:
        count = f"{number:,}" if self.form == "config" else f"{number}"
        return self._tagged("fairseq.data.data_utils", f"loaded {count} examples from: {path}")

    def _tagged(self, tag: str, text: str, *, is_bare: bool = False) -> str:
        if self.form == "print":
            return text if is_bare else f"| {text}"
        return f"2024-03-01 12:00:00 | INFO | {tag} | {text}"


@dataclass(frozen=True)
class GenerationText:
    """The output of fairseq-generate; `num_printed` of its sentences are printed, 0 with --quiet."""

    form: Form = "namespace"
    arguments: Mapping[str, Any] = field(
        default_factory=lambda: {
            "path": "checkpoints/base/averaged.pt",
            "beam": 4,
            "lenpen": 0.6,
            "remove_bpe": "@@ ",
            "quiet": True,
            "gen_subset": "test",
            "data": "data-bin/wmt14_en_de",
            "model_overrides": "{}",
            "seed": 1,
        }
    )
    num_sentences: int = 3003
    num_printed: int = 0
    hypothesis: str = "das ist ein Satz ."
    subset: str = "test"
    beam_size: int = 4
    value: str = "27.31"
    score: str = "BLEU4 = {value}, {precisions} (BP=1.000, ratio=1.031, syslen=66501, reflen=64512)"
    has_start: bool = True

    def changed(self, **arguments: Any) -> "GenerationText":
        """Return the same generation with other arguments."""
        return replace(self, arguments={**self.arguments, **arguments})

    def text(self) -> str:
        """Return the whole output."""
        return "\n".join(self.lines()) + "\n"

    def lines(self) -> list[str]:
        """Return the output line by line."""
        tag = (
            "| " if self.form == "print" else "2024-03-02 12:00:00 | INFO | fairseq_cli.generate | "
        )
        lines = []
        if self.has_start:
            lines.append(
                namespace(self.arguments)
                if self.form == "print"
                else tag + namespace(self.arguments)
            )
            lines.append(f"{tag}loading model(s) from {self.arguments['path']}")
        for number in range(self.num_printed):
            lines += [f"S-{number}\tthis is a sentence .", f"T-{number}\tdas ist ein Satz ."]
            lines += [
                f"H-{number}\t-0.25\t{self.hypothesis}",
                f"D-{number}\t-0.25\t{self.hypothesis}",
            ]
            lines.append(f"P-{number}\t-0.2500 -0.2500")
        count = f"{self.num_sentences:,}" if self.form == "config" else f"{self.num_sentences}"
        if self.has_start:
            lines.append(
                f"{tag}Translated {count} sentences (86379 tokens) in 76.2s (39.39 sentences/s,"
                " 1132.9 tokens/s)"
            )
        bar = "| " if self.form == "print" else ""
        score = self.score.format(value=self.value, precisions=_precisions(self.value))
        return [*lines, f"{bar}Generate {self.subset} with beam={self.beam_size}: {score}"]


def _precisions(value: str) -> str:
    """Return four precisions whose geometric mean is a BLEU."""
    bleu = float(value)
    if not bleu > 0:
        return "58.6/33.4/21.5/14.4"
    return "/".join(f"{bleu * factor:.1f}" for factor in (2.0, 1.25, 0.8, 0.5))


def averaging_text(inputs: list[str], output: str) -> str:
    """Return what scripts/average_checkpoints.py prints."""
    return f"averaging checkpoints:  {inputs!r}\nFinished writing averaged checkpoint to {output}\n"


def write(folder: Path, text_by_name: Mapping[str, str]) -> Path:
    """Write files below a folder, and return the folder."""
    for name, text in text_by_name.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8"))
    return folder


def attempts(commits: tuple[str, ...]) -> str:
    """Return attempts.jsonl with an attempt a commit, each of an hour."""
    events: list[Started | Ended] = []
    for number, commit in enumerate(commits, start=1):
        begin, end = f"2024-03-0{number}T12:00:00+00:00", f"2024-03-0{number}T13:00:00+00:00"
        events.append(
            Started(
                attempt=number,
                time=begin,
                job="1",
                host="h",
                device="cuda",
                num_gpus=8,
                threads_per_rank=1,
                commit=commit,
                update=0,
            )
        )
        events.append(
            Ended(attempt=number, time=end, update=0, outcome="stopped", reason="", log_tail=[])
        )
    return "".join(msgspec.json.encode(event).decode() + "\n" for event in events)

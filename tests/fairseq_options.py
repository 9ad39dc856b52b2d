"""Makes analysis/doctor/fairseq_options.csv and fairseq_architectures.csv from the installed fairseq.

`python -m tests.fairseq_options [FOLDER]` writes them anew, there or in their place; a test keeps them agreed. It needs
a process of its own, with all of fairseq and nothing of ours in fairseq's registries.
"""

import argparse
import contextlib
import csv
import io
import sys
from pathlib import Path
from typing import Any

import analysis.doctor

OPTIONS_PATH = Path(analysis.doctor.__file__).with_name("fairseq_options.csv")
ARCHITECTURES_PATH = Path(analysis.doctor.__file__).with_name("fairseq_architectures.csv")
# The training's own options, and the generation's, whose defaults count where a flag is absent.
DEFAULTED_KEYS = (
    "task", "criterion", "lr_scheduler", "lr", "clip_norm", "update_freq", "max_update", "max_epoch", "label_smoothing",
    "adam_betas", "adam_eps", "weight_decay", "warmup_updates", "warmup_init_lr", "fp16", "bf16",
    "memory_efficient_fp16", "seed",
)  # fmt: skip
GENERATION_KEYS = ("beam", "lenpen", "max_len_a", "max_len_b", "gen_subset", "sacrebleu", "scoring", "post_process")
ARCHITECTURES = (
    "transformer", "transformer_tiny", "transformer_iwslt_de_en", "transformer_wmt_en_de",
    "transformer_vaswani_wmt_en_de_big", "transformer_vaswani_wmt_en_fr_big", "transformer_wmt_en_de_big",
    "transformer_wmt_en_de_big_t2t",
)  # fmt: skip
_, _, *MODEL_KEYS = ARCHITECTURES_PATH.read_text(encoding="utf-8").split("\n")[0].split(",")
# Where two have one flag, these defaults count.
USUAL = ("adam", "label_smoothed_cross_entropy", "inverse_sqrt", "subword_nmt", "moses", "bleu")
TASKS = ("translation", "translation_multi_simple_epoch", "translation_from_pretrained_bart")


def options_csv() -> str:
    """Return every option of fairseq's commands, those of all its criteria, optimisers and schedulers with them."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        from fairseq import options
        from fairseq.dataclass.utils import gen_parser_from_dataclass
        from fairseq.models import ARCH_MODEL_REGISTRY
        from fairseq.registry import REGISTRIES
        from fairseq.tasks import TASK_REGISTRY

        parsers = {
            "train": options.get_training_parser(),
            "generate": options.get_generation_parser(),
            "preprocess": options.get_preprocessing_parser(),
        }
        classes: list[Any] = [TASK_REGISTRY[name] for name in TASKS]
        for registry in REGISTRIES.values():
            names = sorted(registry["registry"], key=lambda name: (name in USUAL, name))
            classes += [registry["registry"][name] for name in names]
        classes.append(ARCH_MODEL_REGISTRY["transformer"])
        extra = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
        for one in classes:
            if hasattr(one, "add_args"):
                with contextlib.suppress(Exception):
                    one.add_args(extra)
            if getattr(one, "__dataclass", None) is not None:
                gen_parser_from_dataclass(extra, one.__dataclass())
    rows: dict[tuple[str, str], tuple[str, str, str]] = {}
    for program, parser in [*parsers.items(), ("train", extra), ("generate", extra)]:
        for action in parser._actions:
            number = {None: "1", 0: "0", "?": "?"}.get(action.nargs, "*")
            is_used = action.dest in (*DEFAULTED_KEYS, *GENERATION_KEYS) and action.default is not None
            default = str(action.default) if is_used else ""
            for flag in action.option_strings:
                rows.setdefault((program, flag), (action.dest, number, default))
    return _csv(("program", "flag", "key", "num_values", "default"), [key + rows[key] for key in sorted(rows)])


def architectures_csv() -> str:
    """Return what each name of fairseq's transformer sets."""
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        from fairseq.models import ARCH_CONFIG_REGISTRY
    rows = []
    for name in ARCHITECTURES:
        preset = argparse.Namespace()
        ARCH_CONFIG_REGISTRY[name](preset)
        narrow = argparse.Namespace(encoder_embed_dim=8)
        ARCH_CONFIG_REGISTRY[name](narrow)
        values = (str(getattr(preset, key)) for key in MODEL_KEYS)
        rows.append((name, str(narrow.decoder_embed_dim == 8), *values))
    return _csv(("arch", "decoder_follows", *MODEL_KEYS), rows)


def _csv(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def write(path: Path, text: str) -> None:
    """Write a table anew."""
    path.write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    for path, text in ((OPTIONS_PATH, options_csv()), (ARCHITECTURES_PATH, architectures_csv())):
        write(Path(sys.argv[1]) / path.name if sys.argv[1:] else path, text)

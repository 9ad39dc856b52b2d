"""Logs of trainings at the paper's scale in fairseq's own format, each with one fault, and what
must be said of it.

Written by `tests.logs.factory`, with the learning rates, target tokens and losses that such a
training prints.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from aiayn.schedule import learning_rate
from tests.logs.factory import BASE, TrainingText

BIG = BASE | {
    "arch": "transformer_vaswani_wmt_en_de_big", "dropout": 0.3, "lr": [0.000494], "max_update": 300_000,
    **{f"{side}_embed_dim": 1024 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_embed_dim": 4096 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 16 for side in ("encoder", "decoder")},
}  # fmt: skip
NUM_EPOCHS = 20
WARMUP_STEPS = 4000


class PaperLog(NamedTuple):
    """A log and the one thing that is wrong in it: `what` the finding is of and its published cost
    in BLEU.

    `lasts` is where the training ends, in updates; `cost` None where none is published.
    """

    name: str
    system: str
    what: str
    cost: tuple[float, float] | None
    certainty: str
    changes: dict[str, Any]
    tokens_per_update: float = 24_900.0
    lasts: int | None = None
    peak: float | None = None
    nll_bits: Callable[[int], float] = lambda update: 2.4 + 2000.0 / update

    def text(self) -> str:
        """Return the log."""
        arguments = (BIG if self.system.startswith("big") else BASE) | self.changes
        asked = int(arguments["max_update"])
        last = self.lasts or asked
        num_parameters = 214_245_376 if self.system.startswith("big") else 63_082_496
        form = TrainingText(
            arguments=arguments | {"max_update": last},
            num_epochs=NUM_EPOCHS,
            lines_per_epoch=9,
            num_parameters=num_parameters
            + (4096 if self.changes.get("encoder_normalize_before") else 0),
        )
        lines = [self._with_statistics(line) for line in form.lines()]
        return "\n".join(lines).replace(f"max_update={last},", f"max_update={asked},") + "\n"

    def _with_statistics(self, line: str) -> str:
        found = re.search(r"num_updates[= ](\d+)", line)
        if not found:
            return line
        update = int(found[1])
        d_model = 1024 if self.system.startswith("big") else 512
        rate = learning_rate(update, d_model=d_model, warmup_steps=WARMUP_STEPS)
        if self.peak is not None:
            rate = self.peak * min(update / WARMUP_STEPS, (WARMUP_STEPS / update) ** 0.5)
        bits = self.nll_bits(update)
        for name, value in (
            ("lr", f"{rate:.6g}"),
            ("wpb", f"{self.tokens_per_update:.1f}"),
            ("nll_loss", f"{bits:.3f}"),
            ("loss", f"{bits + 1.6:.3f}"),
            ("ppl", f"{2**bits:.2f}"),
        ):
            line = re.sub(rf"(?<![\w]){name}([= ])[\d.e-]+", rf"{name}\g<1>{value}", line)
        return line


def _diverging(update: int) -> float:
    return 2.4 + 2000.0 / update if update <= 4000 else 11.2


FAULTY_LOGS = (
    PaperLog("one_gpu", "base", "tokens_per_update", (1.7, 8.0), "suspected",
             {"distributed_world_size": 1, "max_tokens": 3500}, tokens_per_update=3100.0),
    PaperLog("stopped_at_a_third", "big", "updates", (1.3, 1.3), "measured", {}, lasts=100_000),
    PaperLog("pre_norm", "base", "norm_order", (1.0, 1.1), "confirmed",
             {"encoder_normalize_before": True, "decoder_normalize_before": True}),
    PaperLog("no_smoothing", "base", "eps_ls", (0.5, 1.05), "measured", {"label_smoothing": 0.0}),
    PaperLog("no_dropout", "base", "p_drop", (1.2, 1.2), "confirmed", {"dropout": 0.0}),
    PaperLog("diverged", "big", "divergence", (0.0, 28.4), "suspected", {}, nll_bits=_diverging),
)  # fmt: skip
SOUND_LOGS = (
    PaperLog("base", "base", "", None, "", {}),
    PaperLog("big", "big", "", None, "", {}),
    # fairseq's documented rate for big, 5e-4
    PaperLog("documented_rate", "big", "", None, "", {"lr": [0.0005], "adam_eps": 1e-8, "fp16": True}, peak=5e-4),
)  # fmt: skip

"""Writes logs of trainings at the paper's scale in fairseq's own format (`tests.logs.factory`), with
the learning rates, target tokens and losses that such a training prints.
"""

import re
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
    """A log of paper_logs.toml."""

    system: str
    changes: dict[str, Any] | None = None
    tokens: float = 24_900.0
    last_update: int | None = None
    peak: float | None = None
    is_diverged: bool = False

    def text(self) -> str:
        """Return the log."""
        changes = self.changes or {}
        arguments = (BIG if self.system.startswith("big") else BASE) | changes
        asked = int(arguments["max_update"])
        last = self.last_update or asked
        num_parameters = 214_245_376 if self.system.startswith("big") else 63_082_496
        form = TrainingText(
            arguments=arguments | {"max_update": last},
            num_epochs=NUM_EPOCHS,
            lines_per_epoch=9,
            num_parameters=num_parameters
            + (4096 if changes.get("encoder_normalize_before") else 0),
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
        bits = 2.4 + 2000.0 / update
        if self.is_diverged and update > WARMUP_STEPS:
            bits = 11.2
        for name, value in (
            ("lr", f"{rate:.6g}"),
            ("wpb", f"{self.tokens:.1f}"),
            ("nll_loss", f"{bits:.3f}"),
            ("loss", f"{bits + 1.6:.3f}"),
            ("ppl", f"{2**bits:.2f}"),
        ):
            line = re.sub(rf"(?<![\w]){name}([= ])[\d.e-]+", rf"{name}\g<1>{value}", line)
        return line

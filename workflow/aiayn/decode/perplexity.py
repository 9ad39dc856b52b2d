"""Measures perplexity per subword on a test set, teacher-forced (Table 3's PPL column)."""

import math
from pathlib import Path

import torch

from aiayn.train.compat import batch_by_size
from aiayn.train.model import load_model

SIGNATURE = "unit:subword|eos:yes|dropout:no|smoothing:no|base:e"
TOKENS_PER_BATCH = 4000


def perplexity(checkpoint_path: Path, data_folder: Path, split: str, *, device: str) -> tuple[float, int]:
    """Return exp of the mean negative log-likelihood in nats a target token, end of sentence included, and the tokens.

    Equal to 2^nll_loss of fairseq's validation, which takes logarithms to base 2.
    """
    model, task = load_model(checkpoint_path, data_folder, device=device)
    task.load_dataset(split)
    dataset = task.dataset(split)
    nll_nats, num_tokens = 0.0, 0
    order = sorted(range(len(dataset)), key=dataset.num_tokens)
    for batch in batch_by_size(order, dataset.num_tokens, max_tokens=TOKENS_PER_BATCH):
        sample = dataset.collater([dataset[index] for index in batch])
        target = sample["target"].to(device)
        with torch.no_grad():
            logits, _ = model(**{key: value.to(device) for key, value in sample["net_input"].items()})
        nll_nats += float(
            torch.nn.functional.cross_entropy(
                logits.float().flatten(0, 1),
                target.flatten(),
                ignore_index=task.target_dictionary.pad(),
                reduction="sum",
            )
        )
        num_tokens += int(sample["ntokens"])
    return math.exp(nll_nats / num_tokens), num_tokens

"""Counts the parameters of fairseq's own `transformer`, built from the flags that `aiayn train` gives."""

import argparse

from fairseq import options
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel

from aiayn.spec.system import TrainingSpec
from aiayn.train.fairseq_args import model_flags


def count_fairseq_parameters(training: TrainingSpec, *, source_symbols: int, target_symbols: int, joint: bool) -> int:
    """Return how many parameters the built model has; `..._symbols` do not count fairseq's four special ones."""
    flags = ["a data-bin", "--task", "translation", *model_flags(training, is_joint=joint)]
    args = options.parse_args_and_arch(options.get_training_parser(), flags)
    source, target = _dictionary(source_symbols), _dictionary(target_symbols)
    task = argparse.Namespace(source_dictionary=source, target_dictionary=source if joint else target)
    model = TransformerModel.build_model(args, task)
    return sum(parameter.numel() for parameter in model.parameters())


def _dictionary(num_symbols: int) -> Dictionary:
    dictionary = Dictionary()
    for index in range(num_symbols):
        dictionary.add_symbol(f"w{index}")
    return dictionary

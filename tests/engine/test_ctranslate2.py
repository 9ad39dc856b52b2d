"""CTranslate2, an independent implementation, gives our models' tokens the same probabilities and
translates alike.
"""

from pathlib import Path
from typing import Any

import ctranslate2
import msgspec
import pytest

from aiayn.decode.decode import Translator, load_source_lines
from aiayn.records import BinarizedCorpus
from aiayn.train.average import average_checkpoints
from aiayn.train.model import load_model
from tests.benchmarks.ctranslate2_model import save_ctranslate2
from tests.engine.random_checkpoint import SOURCE, TARGET, log_probabilities, save_random
from tests.engine.tiny_spec import DECODING, TRAINING
from tests.engine.tiny_training import LEARNT, make_request, train

# CTranslate2 multiplies in another order; the largest difference found among the systems below was
# 2.4e-6 nats.
NATS = 1e-5
FAIRSEQS = {
    "architecture": "fairseq_transformer",
    "norm_epsilon": 1e-5,
    "initialisation": "fairseq",
}
SYSTEMS = {
    "post-norm": {"num_layers": 2},
    "pre-norm, learned positions": {"num_layers": 2, "norm_order": "pre", "positions": "learned"},
    "sines, then cosines, no attention biases": {
        "positions": "sinusoidal_halves",
        "attention_biases": False,
    },
    "three matrices, a large epsilon, unscaled": {
        "tied_embeddings": False,
        "norm_epsilon": 0.1,
        "attention": "unscaled",
    },
    "over sqrt(d_model), a large epsilon": {"attention": "sqrt_d_model", "norm_epsilon": 0.1},
    "learned temperature": {"attention": "temperature"},
    "fairseq's own, post-norm": {**FAIRSEQS, "positions": "sinusoidal_halves"},
    "fairseq's own, pre-norm": {**FAIRSEQS, "positions": "learned", "norm_order": "pre"},
}


@pytest.mark.parametrize("changes", SYSTEMS.values(), ids=SYSTEMS.keys())
def test_each_token_has_the_same_probability(
    tmp_path: Path, data: BinarizedCorpus, changes: dict[str, Any]
) -> None:
    training = msgspec.structs.replace(TRAINING, **changes)
    model, task = load_model(save_random(tmp_path, data, training), Path(data.folder), device="cpu")
    save_ctranslate2(model, task, training, tmp_path)
    reader = ctranslate2.Translator(str(tmp_path), intra_threads=1)
    differences: list[float] = []
    for source, target in ((SOURCE, TARGET), (TARGET * 9, SOURCE * 8), ([], [])):
        (scored,) = reader.score_batch([source], [target])
        ours = log_probabilities(model, task, source, target)
        differences += [abs(one - other) for one, other in zip(scored.log_probs, ours, strict=True)]
    assert len(differences) == len(TARGET) + 8 * len(SOURCE) + 3
    assert max(differences) < NATS


def test_each_line_of_the_test_set_has_the_same_translation_and_score(
    tmp_path: Path, data: BinarizedCorpus
) -> None:
    learnt = train(make_request(tmp_path / "learnt", data, **LEARNT))
    averaged = average_checkpoints(learnt, last=2, into=tmp_path / "last2.pt")
    translator = Translator(Path(averaged.path), Path(data.folder), DECODING, device="cpu")
    save_ctranslate2(
        translator.model, translator.task, msgspec.structs.replace(TRAINING, **LEARNT), tmp_path
    )
    reader = ctranslate2.Translator(str(tmp_path), intra_threads=1)
    sources = load_source_lines(translator.task, "test")
    pieces = [
        [translator.task.source_dictionary[int(index)] for index in source[:-1]]
        for source in sources
    ]
    search = {
        "beam_size": 4,
        "length_penalty": 0.6,
        "max_decoding_length": 60,
        "return_scores": True,
    }
    as_usual = reader.translate_batch(pieces, **search)
    results = reader.translate_batch(
        pieces, **search, min_decoding_length=0
    )  # takes no </s> out of the first softmax
    ours = translator.translate(sources)
    for source, hypothesis, usual, result in zip(sources, ours, as_usual, results, strict=True):
        assert (
            len(hypothesis.pieces) < len(source) + DECODING.max_extra_tokens
        )  # not ended by force
        assert usual.hypotheses[0] == result.hypotheses[0] == hypothesis.pieces
        assert result.scores[0] == pytest.approx(hypothesis.score, abs=NATS)
    assert len({tuple(hypothesis.pieces) for hypothesis in ours}) > 10
    assert len({len(hypothesis.pieces) for hypothesis in ours}) > 5

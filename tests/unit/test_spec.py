"""Specs: what a system, corpus or scale must say, and how each wrong saying is refused with file and line."""

from pathlib import Path

import msgspec
import pytest
import yaml

from aiayn.errors import ConfigError
from aiayn.spec import system as spec

BASE = """\
name: base
description: A small complete system
training:
  num_layers: 3
  d_model: 64
  d_ff: 256
  num_heads: 4
  d_k: 16
  d_v: 16
  positions: sinusoidal
  p_drop: 0.1
  eps_ls: 0.1
  adam_beta_1: 0.9
  adam_beta_2: 0.98
  adam_epsilon: 1.0e-9
  clip_norm: 0.0
  schedule: equation_3
  warmup_steps: 200
  peak_learning_rate: null
  initial_learning_rate: null
  updates: 700
  max_tokens_per_batch: 2000
  batches_per_update: 1
  save_interval_updates: 35
  patience_epochs: null
  device: cpu
  precision: fp32
  architecture: transformer
  norm_order: post
  norm: layer
  norm_epsilon: 1.0e-6
  attention: scaled
  attention_biases: true
  tied_embeddings: true
  embeddings: d_model
  initialisation: tensor2tensor
  p_drop_attention: 0.0
  p_drop_ffn: 0.0
decoding:
  beam_size: 4
  length_penalty_alpha: 0.6
  length_penalty_form: gnmt
  stop: fairseq
  max_length_per_source_token: 1.0
  max_extra_tokens: 50
"""
SHALLOW = """\
name: shallow
inherits: base
description: One layer
training:
  num_layers: 1
"""


@pytest.fixture
def config_folder(tmp_path: Path) -> Path:
    """Return a config folder whose demo scale holds the systems base and shallow."""
    write_system(tmp_path, "base", BASE)
    write_system(tmp_path, "shallow", SHALLOW)
    return tmp_path


def write_system(config_folder: Path, name: str, text: str) -> Path:
    """Write the file of a system of the demo scale."""
    path = config_folder / "systems" / "demo" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def refusal(config_folder: Path, name: str) -> str:
    """Return the message with which a system of the demo scale is refused, the folder cut off."""
    with pytest.raises(ConfigError) as caught:
        spec.read_system(name, "demo", config_folder)
    return str(caught.value).replace(f"{config_folder}/systems/demo/", "")


def edited_base(config_folder: Path, old: str, new: str) -> str:
    """Return the message with which base is refused after one edit; `new` stands on the line that held `old`."""
    assert BASE.count(old) == 1
    write_system(config_folder, "base", BASE.replace(old, new))
    line = BASE[: BASE.index(old)].count("\n") + 1
    return refusal(config_folder, "base").replace(f"base.yaml:{line}: ", "LINE: ")


def test_a_complete_system_is_read(config_folder: Path) -> None:
    base = spec.read_system("base", "demo", config_folder)
    assert (base.training.num_layers, base.training.adam_epsilon, base.decoding.beam_size) == (3, 1e-9, 4)
    assert base.inherits is None


def test_a_variant_has_its_own_keys_and_its_bases_others(config_folder: Path) -> None:
    base = spec.read_system("base", "demo", config_folder)
    shallow = spec.read_system("shallow", "demo", config_folder)
    assert shallow.training == msgspec.structs.replace(base.training, num_layers=1)
    assert shallow.decoding == base.decoding
    assert (shallow.name, shallow.inherits, shallow.description) == ("shallow", "base", "One layer")


def test_a_variant_of_a_variant_has_the_keys_of_both(config_folder: Path) -> None:
    write_system(
        config_folder, "dry", "name: dry\ninherits: shallow\ndescription: And no dropout\ntraining:\n  p_drop: 0.0\n"
    )
    dry = spec.read_system("dry", "demo", config_folder).training
    assert (dry.num_layers, dry.p_drop, dry.d_model) == (1, 0.0, 64)


def test_a_variant_may_differ_in_decoding_alone(config_folder: Path) -> None:
    text = "name: greedy\ninherits: base\ndescription: Beam 1\ndecoding:\n  beam_size: 1\n"
    write_system(config_folder, "greedy", text)
    greedy, base = (spec.read_system(name, "demo", config_folder) for name in ("greedy", "base"))
    assert greedy.training == base.training
    assert greedy.decoding.beam_size == 1


WRONG_VALUES = [
    ("d_k: 16", "d_k: 0", "LINE: training.d_k is 0"),
    ("patience_epochs: null", "patience_epochs: 0",
     "LINE: training.patience_epochs is 0"),
    ("eps_ls: 0.1", "eps_ls: -0.1", "LINE: training.eps_ls is -0.1"),
    ("eps_ls: 0.1", "eps_ls: .nan", "LINE: training.eps_ls is nan"),
    ("adam_epsilon: 1.0e-9", "adam_epsilon: 0.0",
     "LINE: training.adam_epsilon is 0.0"),
    ("clip_norm: 0.0", "clip_norm: .inf", "LINE: training.clip_norm is inf"),
    ("peak_learning_rate: null", "peak_learning_rate: 0.005",
     "LINE: training.peak_learning_rate is 0.005"),
    ("embeddings: d_model", "embeddings: vectors", "LINE: training.embeddings is 'vectors'"),
    ("beam_size: 4", "beam_size: 0", "LINE: decoding.beam_size is 0"),
    ("length_penalty_alpha: 0.6", "length_penalty_alpha: -0.6",
     "LINE: decoding.length_penalty_alpha is -0.6"),
    ("max_length_per_source_token: 1.0", "max_length_per_source_token: -1.0",
     "LINE: decoding.max_length_per_source_token is -1.0"),
    ("max_extra_tokens: 50", "max_extra_tokens: 0", "LINE: decoding.max_extra_tokens is 0"),
    ("p_drop: 0.1", "p_dorp: 0.1", "LINE: unknown key 'p_dorp'; did you mean 'p_drop'?"),
    ("d_ff: 256", "d_ff: 256.0", "LINE: training.d_ff: 256.0: "),
    ("adam_epsilon: 1.0e-9", "adam_epsilon: 1e-9",
     "LINE: training.adam_epsilon: '1e-9': "),
    ("positions: sinusoidal", "positions: learnt", "LINE: training.positions: 'learnt'; did you mean 'learned'?"),
    ("precision: fp32", "precision: half", "LINE: training.precision: 'half'"),
    ("name: base", "name: bass", "LINE: name 'bass', but the file is base.yaml"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "message"), WRONG_VALUES, ids=[new for _, new, _ in WRONG_VALUES])
def test_a_wrong_value_is_refused_with_its_line(config_folder: Path, old: str, new: str, message: str) -> None:
    assert edited_base(config_folder, old, new).startswith(message)


def test_a_missing_key_is_refused_with_the_mapping_that_lacks_it(config_folder: Path) -> None:
    write_system(config_folder, "base", BASE.replace("  p_drop: 0.1\n", ""))
    assert refusal(config_folder, "base") == "base.yaml:3: missing key 'p_drop' under 'training'; add it"


def test_a_fault_of_the_base_is_found_in_the_base_when_a_variant_is_read(config_folder: Path) -> None:
    write_system(config_folder, "base", BASE.replace("  p_drop: 0.1\n", ""))
    assert refusal(config_folder, "shallow") == "base.yaml:3: missing key 'p_drop' under 'training'; add it"


def test_a_wrong_value_of_a_variant_is_found_in_the_variant(config_folder: Path) -> None:
    write_system(config_folder, "shallow", SHALLOW.replace("num_layers: 1", "num_layers: 0"))
    message = "shallow.yaml:5: training.num_layers is 0; expected a whole number of 1 or more"
    assert refusal(config_folder, "shallow") == message


def test_a_duplicate_key_is_refused_with_both_lines(config_folder: Path) -> None:
    write_system(config_folder, "shallow", f"{SHALLOW}  num_layers: 2\n")
    message = "shallow.yaml:6: 'num_layers' is given twice (first at shallow.yaml:5); keep one"
    assert refusal(config_folder, "shallow") == message


def test_a_system_equal_to_its_base_is_refused(config_folder: Path) -> None:
    write_system(config_folder, "shallow", SHALLOW.replace("num_layers: 1", "num_layers: 3"))
    assert refusal(config_folder, "shallow") == "shallow.yaml:2: shallow equals base, its base; change a value"


def test_inheriting_in_a_circle_is_refused(config_folder: Path) -> None:
    write_system(config_folder, "base", f"inherits: shallow\n{BASE}")
    message = "base.yaml:1: inherits in a circle: shallow -> base -> shallow; cut it at its base"
    assert refusal(config_folder, "shallow") == message


def test_a_base_that_does_not_exist_is_refused_where_it_is_named(config_folder: Path) -> None:
    write_system(config_folder, "shallow", SHALLOW.replace("inherits: base", "inherits: bose"))
    message = "shallow.yaml:2: inherits 'bose', which cannot be read: bose.yaml: no such file; did you mean 'base'?"
    assert refusal(config_folder, "shallow") == message


def test_a_base_that_is_no_name_is_refused(config_folder: Path) -> None:
    write_system(config_folder, "shallow", SHALLOW.replace("inherits: base", "inherits: [base]"))
    message = "shallow.yaml:2: inherits is ['base']; expected the name of a system of scale demo"
    assert refusal(config_folder, "shallow") == message


@pytest.mark.parametrize("key", ["name", "description"])
def test_name_and_description_are_not_inherited(config_folder: Path, key: str) -> None:
    kept = [line for line in SHALLOW.splitlines(keepends=True) if not line.startswith(key)]
    write_system(config_folder, "shallow", "".join(kept))
    message = f"shallow.yaml:1: {key} is None; expected a {key} in every system's own file"
    assert refusal(config_folder, "shallow") == message


def test_a_system_that_does_not_exist_is_answered_with_the_nearest(config_folder: Path) -> None:
    assert refusal(config_folder, "shalow") == "shalow.yaml: no such file; did you mean 'shallow'?"


def test_a_scale_that_does_not_exist_is_answered_with_all(config_folder: Path) -> None:
    with pytest.raises(ConfigError, match="scale 'dmo': expected one of demo, multi30k, paper"):
        spec.read_system("base", "dmo", config_folder)


INVERSE_SQRT = "schedule: inverse_sqrt\n  warmup_steps: 200\n  peak_learning_rate: {}\n  initial_learning_rate: {}"
EQUATION_3 = INVERSE_SQRT.format("null", "null").replace("inverse_sqrt", "equation_3")


@pytest.mark.parametrize(
    ("peak", "initial", "message"),
    [
        ("null", "1.0e-7", "base.yaml:19: training.peak_learning_rate is None"),
        ("0.0", "0.0", "base.yaml:19: training.peak_learning_rate is 0.0"),
        (".inf", "0.0", "base.yaml:19: training.peak_learning_rate is inf"),
        ("0.005", "null",
         "base.yaml:20: training.initial_learning_rate is None"),
        ("0.005", "0.05",
         "base.yaml:20: training.initial_learning_rate is 0.05"),
    ],
)  # fmt: skip
def test_inverse_sqrt_needs_both_its_rates(config_folder: Path, peak: str, initial: str, message: str) -> None:
    assert EQUATION_3 in BASE
    write_system(config_folder, "base", BASE.replace(EQUATION_3, INVERSE_SQRT.format(peak, initial)))
    assert refusal(config_folder, "base").startswith(message)


def test_inverse_sqrt_is_read_with_both_its_rates(config_folder: Path) -> None:
    write_system(config_folder, "base", BASE.replace(EQUATION_3, INVERSE_SQRT.format("0.005", "1.0e-7")))
    training = spec.read_system("base", "demo", config_folder).training
    assert (training.peak_learning_rate, training.initial_learning_rate) == (0.005, 1e-7)


def training_of(config_folder: Path, old: str = "", new: str = "") -> spec.TrainingSpec:
    """Return base's training spec, after an edit of its file."""
    write_system(config_folder, "base", BASE.replace(old, new) if old else BASE)
    return spec.read_system("base", "demo", config_folder).training


def test_a_comment_or_another_spelling_of_a_number_changes_no_digest(config_folder: Path) -> None:
    digest = spec.spec_digest(training_of(config_folder))
    assert len(digest) == 16
    assert spec.spec_digest(training_of(config_folder, "d_k: 16", "d_k: 16  # a remark")) == digest
    assert spec.spec_digest(training_of(config_folder, "clip_norm: 0.0", "clip_norm: 0")) == digest
    assert spec.spec_digest(training_of(config_folder, "  num_layers: 3\n  d_model: 64\n",
                                        "  d_model: 64\n  num_layers: 3\n")) == digest  # fmt: skip


def test_a_value_changes_the_digest(config_folder: Path) -> None:
    digest = spec.spec_digest(training_of(config_folder))
    assert spec.spec_digest(training_of(config_folder, "p_drop: 0.1", "p_drop: 0.2")) != digest


def test_the_name_of_a_run_changes_with_what_decides_its_tensors(config_folder: Path) -> None:
    training = training_of(config_folder)

    def name(training: spec.TrainingSpec = training, seed: int = 1, data: str = "aa", version: int = 1) -> str:
        return spec.run_name(
            corpus="demo_en_de", system="base", seed=seed, training=training, data_digest=data, stage_version=version
        )

    other_training = msgspec.structs.replace(training, p_drop=0.2)
    assert name().startswith("demo_en_de-base-seed1-")
    assert len(name().rpartition("-")[2]) == 8
    assert name() == name()
    assert len({name(), name(other_training), name(seed=2), name(data="bb"), name(version=2)}) == 5


SCALE = """\
scale: demo
runs_folder: runs
en_de_corpus: demo_en_de
en_fr_corpus: demo_en_fr
en_de_systems: [base, big]
en_fr_systems: [base, big_enfr]
ablation_systems: [table3_c_n2]
replications: []
seeds: [1, 2]
ablation_seeds: [1]
has_baselines: true
cluster: local
variants: []
architectures: []
variant_seeds: [1]
"""


def scale_refusal(tmp_path: Path, old: str, new: str) -> str:
    """Return the message with which a scale's file is refused after one edit, the folder cut off."""
    assert SCALE.count(old) == 1
    path = tmp_path / "demo.yaml"
    path.write_text(SCALE.replace(old, new), encoding="utf-8", newline="\n")
    with pytest.raises(ConfigError) as caught:
        spec.read_scale(path)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_a_scale_is_read(tmp_path: Path) -> None:
    path = tmp_path / "demo.yaml"
    path.write_text(SCALE, encoding="utf-8", newline="\n")
    scale = spec.read_scale(path)
    assert (scale.scale, scale.seeds, scale.mirror, scale.allow_long_runs) == ("demo", [1, 2], None, False)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ablation_seeds", "ablation_seed",
         "demo.yaml:10: unknown key 'ablation_seed'; did you mean 'ablation_seeds'?"),
        ("cluster: local\n", "", "demo.yaml:1: missing key 'cluster'; add it"),
        ("has_baselines: true", "has_baselines: maybe",
         "demo.yaml:11: has_baselines: 'maybe': "),
        ("seeds: [1, 2]", "seeds: [1, two]",
         "demo.yaml:9: seeds[1]: 'two': "),
        ("seeds: [1, 2]", "seeds: [1, 1]", "demo.yaml:9: seeds is [1, 1]"),
        ("seeds: [1, 2]", "seeds: [0, 2]", "demo.yaml:9: seeds is [0, 2]"),
        ("seeds: [1, 2]", "seeds: [5, 101]",
         "demo.yaml:9: seeds is [5, 101]; expected seeds below 101: from there on they are a probe's"),
        ("seeds: [1, 2]", "seeds: [1]\nbase_seeds: [5, 102]", "demo.yaml:10: base_seeds is [5, 102]; expected"),
        ("seeds: [1, 2]", "seeds: [1]\nreplication_seeds: [3, 3]", "demo.yaml:10: replication_seeds is [3, 3]"),
        ("[base, big]", "[base, base]", "demo.yaml:5: en_de_systems is ['base', 'base']"),
        ("[base, big_enfr]", "[base, no]",
         "demo.yaml:6: en_fr_systems[1]: False: "),
        ("seeds: [1, 2]", "seeds: one",
         "demo.yaml:9: seeds: 'one': "),
        ("scale: demo", "scale: demos", "demo.yaml:1: scale: 'demos'; did you mean 'demo'?"),
    ],
)  # fmt: skip
def test_a_wrong_scale_is_refused_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert scale_refusal(tmp_path, old, new).startswith(message)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("dmeo.yaml", "did you mean {}/demo.yaml?"),
        ("nope.yaml", "existing configs: {0}/demo.yaml, {0}/tiny.yaml"),
    ],
)
def test_an_absent_scale_is_answered_with_the_scales_that_there_are(tmp_path: Path, name: str, advice: str) -> None:
    """Wherever it was looked for; hardware.yaml is none, nor is a file of the editor's."""
    for other in ("demo", "tiny", ".demo"):
        (tmp_path / f"{other}.yaml").write_text(SCALE, encoding="utf-8")
    (tmp_path / "hardware.yaml").write_text("gpu_by_name: {}\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        spec.read_scale_document(Path(name), config_folder=tmp_path)
    assert str(caught.value) == f"{name}: no such file; {advice.format(tmp_path)}"


def test_an_absent_scale_is_answered_with_paths_to_be_typed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(spec.CONFIG_FOLDER.parents[1])
    with pytest.raises(ConfigError, match=r"^nope\.yaml: no such file; .* workflow/config/demo\.yaml, work"):
        spec.read_scale(Path("nope.yaml"))


def test_snakemakes_merged_config_is_held_to_the_same_rules() -> None:
    config: dict[str, object] = yaml.safe_load(SCALE)
    assert spec.convert_scale(config, "the config").seeds == [1, 2]
    with pytest.raises(ConfigError, match="the config: unknown key 'mirrors'; did you mean 'mirror'"):
        spec.convert_scale(config | {"mirrors": "file:///data"}, "the config")
    with pytest.raises(ConfigError, match=r"the config: seeds is \[1, 1\]; expected each value once"):
        spec.convert_scale(config | {"seeds": [1, 1]}, "the config")


CORPUS = """\
name: small
description: Two files and their test sets
language_pair: en-de
source:
  kind: parallel
  mirror_folder: small
  public_url: https://example.org/small/
  file_by_split:
    train: {en: {path: train.en, sha256: aa}, de: {path: train.de, sha256: bb}}
    val: {en: {path: val.en, sha256: cc}, de: {path: val.de, sha256: dd}}
    test: {en: {path: test.en, sha256: ee}, de: {path: test.de, sha256: ff}}
dev_testset: val
test_testset: test
clean: {max_words: 80, max_length_ratio: 1.5, deduplicate: false}
subword: {vocabulary_size: 8000, joint: true}
"""


def read_small_corpus(tmp_path: Path, old: str = "", new: str = "") -> spec.CorpusSpec:
    """Read the corpus above after one edit."""
    assert not old or CORPUS.count(old) == 1
    path = tmp_path / "corpora" / "small.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(CORPUS.replace(old, new) if old else CORPUS, encoding="utf-8", newline="\n")
    return spec.read_corpus("small", tmp_path)


def test_a_corpus_knows_its_languages_and_test_sets(tmp_path: Path) -> None:
    corpus = read_small_corpus(tmp_path, "test_testset: test\n", "test_testset: test\nfurther_testsets: []\n")
    assert (corpus.source_language, corpus.target_language) == ("en", "de")
    assert corpus.testsets == ("val", "test")
    assert (corpus.testset_of("dev"), corpus.testset_of("test")) == ("val", "test")
    assert not corpus.is_segmented


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: small", "name: smal", "small.yaml:1: name 'smal', but the file is small.yaml"),
        ("kind: parallel", "kind: paralel", "small.yaml:5: source.kind: 'paralel'; did you mean 'parallel'?"),
        ("sha256: cc", "sha265: cc", "small.yaml:10: unknown key 'sha265'; did you mean 'sha256'?"),
        ("sha256: cc}, de: {path: val.de, sha256: dd}", "sha256: cc}",
         'small.yaml:8: source.file_by_split is "val: [\'en\']"'),
        ("dev_testset: val", "dev_testset: vla",
         "small.yaml:8: source.file_by_split is 'vla: []'"),
        ("subword: {vocabulary_size: 8000, joint: true}\n", "",
         "small.yaml:1: subword is None"),
        ("joint: true}", "joint: true, sample_lines: 0}",
         "small.yaml:15: subword.sample_lines is 0"),
        ("joint: true}", "joint: true, sample_lines: 9, method: subword_nmt}",
         "small.yaml:15: subword.sample_lines is 9"),
        ("joint: true}", "joint: true, sample_seed: -1}",
         "small.yaml:15: subword.sample_seed is -1"),
        ("kind: parallel", "kind: segmented",
         "small.yaml:15: subword is SubwordSpec(vocabulary_size=8000, joint=True, "),
        ("language_pair: en-de", "language_pair: en-den",
         "small.yaml:3: language_pair: 'en-den'; did you mean 'en-de'?"),
    ],
)  # fmt: skip
def test_a_wrong_corpus_is_refused_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_small_corpus(tmp_path, old, new)
    assert str(caught.value).replace(f"{tmp_path}/corpora/", "").startswith(message)

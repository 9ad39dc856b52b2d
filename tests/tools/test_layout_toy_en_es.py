"""The tutorial's eight sentences: ours next to its author's, seed by seed, and nothing claimed that
was not seen.
"""

import hashlib
import shutil
from pathlib import Path

import pytest

from aiayn.data.text.lines import read_shipped
from aiayn.errors import ConfigError, RecordError, TableError
from aiayn.experiment import (
    expand_trainings,
)
from aiayn.paths import Evaluation, evaluation_record
from aiayn.printed import evaluations_of, read_sentences
from aiayn.scoring.scores import read_trainings
from aiayn.spec.system import CONFIG_FOLDER, ShippedSource, read_corpus, read_system
from analysis.tools.tables.toy_en_es import lay_out_toy
from paper_tables.frame import Translations
from paper_tables.layout import Table
from paper_tables.render.render import RENDERER_BY_SUFFIX
from paper_tables.render.tables import lay_out_tables
from paper_tables.scale_results import read_translations
from paper_tables.tables.table2 import lay_out_table2
from tests import records_factory
from tests.laid_out import frame_of, rows_of
from tests.records_factory import (
    Site,
    make_site,
    write_binarized,
    write_scores,
    write_training,
    write_translations,
)

BY_HEART = (
    "hola mundo",
    "el gato es negro",
    "buenos dias",
    "como te llamas",
    "este es un libro",
    "te amo",
)
LINES_BY_SEED = {
    1: (*BY_HEART, "te amo", "este es un gato"),
    2: ("hola", *BY_HEART[1:], "te amo", "este es un libro"),
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Return a demo that asks only for the tutorial, nothing run yet."""
    system = read_system("seed_waynestalk", "demo")
    monkeypatch.setitem(records_factory.TRAINING_BY_SYSTEM, system.name, system.training)
    made = make_site(
        tmp_path,
        replications=["toy_en_es"],
        en_de_systems=[],
        en_fr_systems=[],
        ablation_systems=[],
    )
    shutil.copy(CONFIG_FOLDER / "corpora" / "toy_en_es.yaml", made.config_folder / "corpora")
    return made


def evaluations(site: Site) -> list[Evaluation]:
    """Return the toy's evaluations, a seed each."""
    return site.experiment.evaluations


def write_lines(
    site: Site, evaluation: Evaluation, lines: tuple[str, ...], run: str | None = None
) -> None:
    """Write translations and their record."""
    signature = "beam:3|stop:tensor2tensor"
    write_translations(
        site, evaluation, "".join(f"{line}\n" for line in lines), run=run, signature=signature
    )


def write_seed(site: Site, evaluation: Evaluation) -> None:
    """Write everything of one seed."""
    write_training(site, evaluation.corpus, evaluation.system, evaluation.seed)
    write_scores(site, evaluation, {"bleu_as_given": 50.0})
    write_lines(site, evaluation, LINES_BY_SEED[evaluation.seed])


def write_all(site: Site) -> None:
    """Write everything of both seeds."""
    for evaluation in evaluations(site):
        write_seed(site, evaluation)
    write_binarized(site, "toy_en_es", "es", 36)


def toy(site: Site) -> Table:
    """Return the table of what is there."""
    return lay_out_toy(frame_of(site))


def read_all(site: Site) -> dict[Evaluation, Translations]:
    """Read every translation, and refuse what is not there."""
    keys = [
        (training.corpus, training.system, training.seed)
        for training in expand_trainings(site.scale)
    ]
    trainings = read_trainings(keys, site.results_folder, "demo", Path("runs"))
    return read_translations(
        evaluations(site),
        trainings,
        dict.fromkeys(trainings, site.results_folder),
        "demo",
        so_far=False,
    )


def by_sentence(table: Table) -> dict[str, dict[str, str]]:
    """Return the text of each cell by column by sentence."""
    return {row["sentence"]: row for row in rows_of(table)}


def test_each_seed_is_shown_beside_what_the_author_got(site: Site) -> None:
    write_all(site)
    table = toy(site)
    assert table.signatures == (("search", "toy_eight (toy_en_es)", "beam:3|stop:tensor2tensor"),)
    rows = by_sentence(table)
    assert list(rows) == [one.sentence for one in read_sentences()["toy_en_es"]]
    assert rows["hello world"] == {
        "sentence": "hello world",
        "trained_on": "yes",
        "reference": "hola mundo",
        "program_output": "hola mundo",
        "seed1": "hola mundo [\u2020]",
        "seed2": "hola [\u2020]",
        "same_as_authors": "1 of 2 [\u2020]",
        "same_as_reference": "1 of 2 [\u2020]",
    }
    cat = rows["this is a cat"]
    assert (cat["trained_on"], cat["reference"]) == ("no", "este es un gato [*]")
    assert cat["program_output"] == "este es un libro"
    assert (cat["seed1"], cat["seed2"]) == ("este es un gato [\u2020]", "este es un libro [\u2020]")
    assert (cat["same_as_authors"], cat["same_as_reference"]) == (
        "1 of 2 [\u2020]",
        "1 of 2 [\u2020]",
    )
    assert rows["i love cat"]["same_as_authors"] == "2 of 2 [\u2020]"
    assert rows["i love cat"]["same_as_reference"] == "0 of 2 [\u2020]"


def test_a_missing_seed_is_named_and_not_counted(site: Site) -> None:
    assert {row["seed1"] for row in by_sentence(toy(site)).values()} == {"missing [\u2020]"}
    assert {row["same_as_authors"] for row in by_sentence(toy(site)).values()} == {
        "\u2013 [\u2020]"
    }
    write_seed(site, evaluations(site)[0])
    write_lines(site, evaluations(site)[0], (LINES_BY_SEED[1][0], "", *LINES_BY_SEED[1][2:]))
    rows = by_sentence(toy(site))
    assert rows["the cat is black"]["seed1"] == "(nothing) [\u2020]"  # translated, but empty
    row = by_sentence(toy(site))["hello world"]
    assert (row["seed1"], row["seed2"], row["same_as_authors"]) == (
        "hola mundo [\u2020]",
        "missing [\u2020]",
        "1 of 1 [\u2020]",
    )


def test_a_scale_that_does_not_name_it_has_no_such_table(tmp_path: Path) -> None:
    frame = frame_of(make_site(tmp_path))
    assert "toy_en_es" not in [table.name for table in lay_out_tables(frame)]
    assert frame.translations == {}


def test_tables_2_and_3_and_the_verdicts_do_not_take_it_in(site: Site) -> None:
    write_all(site)
    frame = frame_of(site)
    assert [cell for cell in frame.judged if cell.number is not None] == []
    assert "toy" not in RENDERER_BY_SUFFIX["md"](lay_out_table2(frame))


def test_translations_of_another_run_are_refused_and_left_out_so_far(site: Site) -> None:
    write_all(site)
    write_lines(site, evaluations(site)[0], LINES_BY_SEED[1], run="another-run")
    with pytest.raises(RecordError, match=r"toy_eight\.json: .*another-run"):
        read_all(site)
    assert by_sentence(toy(site))["hello world"]["seed1"] == "not scored [\u2020]"


def test_translations_that_changed_since_their_record_are_refused(site: Site) -> None:
    write_all(site)
    path = evaluation_record(
        site.results_folder, "demo", "decode", evaluations(site)[0]
    ).with_suffix(".txt")
    path.write_text("adios mundo\n")
    with pytest.raises(RecordError, match=r"toy_eight\.txt: .*[0-9a-f]{64}.*[0-9a-f]{64}"):
        read_all(site)
    path.unlink()
    with pytest.raises(RecordError, match=r"toy_eight\.txt: .*[0-9a-f]{64}"):
        read_all(site)


def test_a_corpus_with_other_test_sentences_is_refused(site: Site) -> None:
    write_all(site)
    text = (CONFIG_FOLDER / "corpora" / "toy_en_es.tsv").read_bytes()
    other_text = text.replace(b"i love cat", b"i love you all")
    other_path = site.config_folder / "other.tsv"
    other_path.write_bytes(other_text)
    path = site.config_folder / "corpora" / "toy_en_es.yaml"
    content = path.read_text(encoding="utf-8").replace("toy_en_es.tsv", str(other_path))
    sums = [hashlib.sha256(side).hexdigest() for side in (text, other_text)]
    path.write_text(content.replace(*sums), encoding="utf-8")
    with pytest.raises(TableError, match=r"toy_en_es.*toy_eight.*'i love you all'"):
        toy(site)


def test_another_test_set_than_the_tutorials_is_refused(site: Site) -> None:
    path = site.config_folder / "corpora" / "toy_en_es.yaml"
    path.write_text(
        path.read_text(encoding="utf-8").replace("toy_eight", "toy_nine"), encoding="utf-8"
    )
    with pytest.raises(ConfigError, match=r"toy_en_es: .*toy_nine.*toy_eight"):
        _ = site.experiment


def test_the_published_sentences_are_those_of_the_shipped_corpus() -> None:
    (run, *others) = published = read_sentences()["toy_en_es"]
    source = read_corpus(run.corpus).source
    assert isinstance(source, ShippedSource)
    assert [sentence for sentence, _ in read_shipped(source)[run.testset]] == [
        one.sentence for one in published
    ]
    assert len(others) == 7
    assert evaluations_of("en-es", run.system) == [("last1", "test")]

"""Lays out the six pairs of a tutorial: each of its eight sentences, what its author got, what our seeds produced.

The tutorial prints no number, so nothing is judged: a translation is the same as another, word for word, or it is not.
"""

from collections.abc import Sequence
from dataclasses import replace

from aiayn.errors import TableError
from aiayn.experiment import shown_evaluations
from aiayn.paths import Evaluation
from aiayn.printed import PublishedSentence, read_sentences
from aiayn.spec.system import ListedSource
from paper_tables.cell_verdicts import JudgedCell
from paper_tables.layout import DASH, MARK_BY_SCALE, Cell, CellProvenance, Column, Note, Row, Table, text_cell
from paper_tables.scale_results import ScaleResults
from paper_tables.tables.ours import source_of, state_notes, state_words

TOY_NAME = "toy_en_es"
NOT_TO_BE_HAD = "not to be had"
OWN_REFERENCE_MARK = "*"


def lay_out_toy(results: ScaleResults, _judged: Sequence[JudgedCell]) -> Table | None:
    """Return the table of the eight sentences, in the tutorial's order; None for a scale that does not name its row.

    Raises:
        TableError: if the corpus file and sentences.csv do not hold the same test sentences.
    """
    if not shown_evaluations(results.evaluations):
        return None
    published = read_sentences()[TOY_NAME]
    run = published[0]
    evaluations = [
        one
        for one in results.evaluations
        if (one.corpus, one.system, one.average, one.role) == (run.corpus, run.system, run.average, run.role)
    ]
    pair_by_sentence, trained = _pairs(results, run)
    if list(pair_by_sentence) != [one.sentence for one in published]:
        raise TableError(
            f"corpus {run.corpus}, test set {run.testset}: {list(pair_by_sentence)}; expected the sentences of row "
            f"{TOY_NAME} of published/sentences.csv, in their order; make the two agree"
        )
    rows = tuple(
        _row(results, evaluations, index, one, pair_by_sentence[one.sentence], one.sentence in trained)
        for index, one in enumerate(published)
    )
    signatures = {
        ("search", f"{one.testset} ({one.corpus})", results.translations[one].signature)
        for one in evaluations
        if one in results.translations
    }
    return Table(
        name=TOY_NAME,
        title="Six pairs by heart",
        caption=f"The eight test sentences of {run.article}, whose Transformer (system {run.system}: the paper's "
        "base without dropout, smoothing or warm-up) is trained on six English-Spanish pairs, 100 updates of all "
        "six. Each translation as it left the model.",
        columns=_columns(evaluations),
        rows=rows,
        notes=(*_notes(results, run), *state_notes(results, evaluations)),
        signatures=tuple(sorted(signatures)),
    )


def _columns(evaluations: Sequence[Evaluation]) -> tuple[Column, ...]:
    return (
        Column("sentence", "sentence", side="label"),
        Column("trained_on", "trained on", side="label"),
        Column("reference", "reference"),
        Column("reported", "reported", "the author's"),
        Column("program_output", "program, run again", "the author's"),
        *(Column(f"seed{one.seed}", f"seed {one.seed}", "ours", "ours") for one in evaluations),
        Column("same_as_authors", "as the author's", "seeds that read the same", "ours"),
        Column("same_as_reference", "as the reference", "seeds that read the same", "ours"),
    )


def _pairs(results: ScaleResults, run: PublishedSentence) -> tuple[dict[str, str], set[str]]:
    """Return the reference by test sentence, and the sentences of training."""
    corpus = results.corpora[run.corpus]
    if not isinstance(corpus.source, ListedSource):
        raise TableError(f"corpus {run.corpus}: its file does not hold its text; expected a source of kind listed")
    source_language, target_language = corpus.source_language, corpus.target_language
    pairs_by_split = corpus.source.pairs_by_split
    reference_by_sentence = {pair[source_language]: pair[target_language] for pair in pairs_by_split[run.testset]}
    return reference_by_sentence, {pair[source_language] for pair in pairs_by_split["train"]}


def _row(
    results: ScaleResults,
    evaluations: Sequence[Evaluation],
    sentence_index: int,
    published: PublishedSentence,
    reference: str,
    is_trained: bool,
) -> Row:
    line_by_seed = {
        one.seed: results.translations[one].lines[sentence_index] for one in evaluations if one in results.translations
    }
    lines = list(line_by_seed.values())
    return Row(
        (
            text_cell(published.sentence, "label"),
            text_cell("yes" if is_trained else "no", "label"),
            text_cell(reference) if is_trained else text_cell(reference, "printed", OWN_REFERENCE_MARK),
            text_cell(published.reported) if published.reported else text_cell(NOT_TO_BE_HAD, "state"),
            text_cell(published.program_output),
            *(_seed_cell(results, one, line_by_seed.get(one.seed)) for one in evaluations),
            _count_cell(results, lines, published.reported or published.program_output),
            _count_cell(results, lines, reference),
        )
    )


def _mark(results: ScaleResults) -> str:
    return MARK_BY_SCALE[results.scale.scale]


def _seed_cell(results: ScaleResults, evaluation: Evaluation, line: str | None) -> Cell:
    if line is None:
        return text_cell(state_words(results, evaluation, [evaluation.seed])[evaluation.seed], "state", _mark(results))
    train = results.train_by_key[(evaluation.corpus, evaluation.system, evaluation.seed)]
    source = source_of(train, line or "(nothing)")
    signature = results.translations[evaluation].signature
    of = f"translation by {evaluation.system}, {evaluation.corpus}, {evaluation.testset}, {evaluation.average}"
    cell = text_cell(line or "(nothing)", "ours", _mark(results))
    return replace(cell, provenance=CellProvenance(of, (source,), signature))


def _count_cell(results: ScaleResults, lines: Sequence[str], expected: str) -> Cell:
    if not lines:
        return text_cell(DASH, "state", _mark(results))
    return text_cell(f"{lines.count(expected)} of {len(lines)}", "ours", _mark(results))


def _notes(results: ScaleResults, run: PublishedSentence) -> tuple[Note, ...]:
    place = f"{run.source_repository}, {run.source_path} at {run.source_commit[:8]}"
    return (
        Note(_mark(results), f"A run of ours at scale {results.scale.scale}, on the tutorial's pairs: nothing of the "
                              "paper's is reproduced or compared here."),
        Note(OWN_REFERENCE_MARK, "Reference of this project: the tutorial gives no translation of what it does not "
                                 "train on."),
        Note("", f"Reported: what the author printed of a run. {NOT_TO_BE_HAD.capitalize()}: the repository keeps no "
                 "output, and the article could not be read to its end; our seeds are then compared with what the "
                 f"author's program puts out ({place}; {run.program_run})."),
        Note("", "Unlike there, the end of sentence closes the source and begins the target. Begun so, the author's "
                 "program (seed 1) is slower to learn, too, at 1.43 nats a word after 50 updates instead of 0.42, and "
                 "its last two outputs are \u201cte\u201d and \u201ces es es\u201d. The projections of q, k and v "
                 "start from torch.nn.Transformer's distribution instead of torch.nn.Linear's, and a finished "
                 "hypothesis takes no place in the beam, whose search ends when no other can beat it."),
    )  # fmt: skip

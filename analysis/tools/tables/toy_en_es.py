"""Lays out table `toy_en_es`: a tutorial's eight test sentences with its author's translations and
ours.

The tutorial prints no number, so nothing is judged: two translations are equal word for word, or
they differ.
"""

from collections.abc import Sequence
from dataclasses import replace

from aiayn.data.text.lines import read_shipped
from aiayn.errors import TableError
from aiayn.printed import PublishedSentence, read_sentences
from aiayn.spec.system import ShippedSource
from paper_tables.frame import Frame, Run
from paper_tables.layout import (
    DASH,
    MARK_BY_SCALE,
    Cell,
    CellProvenance,
    Column,
    Note,
    Row,
    Table,
    text_cell,
)
from paper_tables.tables.ours import source_of, state_notes

TOY_NAME = "toy_en_es"
OWN_REFERENCE_MARK = "*"


def lay_out_toy(frame: Frame) -> Table | None:
    """Return the table of the eight sentences, in the tutorial's order; None if the scale does not
    run its system.

    Raises:
        TableError: if the corpus file and sentences.csv do not hold the same test sentences.
    """
    published = read_sentences()[TOY_NAME]
    run = published[0]
    if run.key not in frame.translations:
        return None
    runs, translations = frame.runs_by_system[run.corpus, run.system], frame.translations[run.key]
    reference_by_sentence, trained = _pairs(frame, run)
    if list(reference_by_sentence) != [line.sentence for line in published]:
        raise TableError(
            f"corpus {run.corpus}, test set {run.testset}: {list(reference_by_sentence)}; expected"
            f" the sentences of row {TOY_NAME} of published/sentences.csv, in their order; make"
            " both agree"
        )
    rows = []
    for index, line in enumerate(published):
        reference = reference_by_sentence[line.sentence]
        rows.append(_row(frame, index, line, reference, line.sentence in trained))
    place = f"{run.testset} ({run.corpus})"
    signatures = {("search", place, output.signature) for output in translations.values()}
    return Table(
        name=TOY_NAME,
        title="Six pairs by heart",
        caption=(
            f"The eight test sentences of {run.article}, whose Transformer (system {run.system}:"
            " the paper's base without dropout, smoothing or warm-up) is trained on six"
            " English-Spanish pairs, 100 updates of all six. Each translation as it left the"
            " model."
        ),
        columns=_columns(runs),
        rows=tuple(rows),
        notes=(*_notes(frame, run), *state_notes(frame, {(run.corpus, run.system)})),
        signatures=tuple(sorted(signatures)),
    )


def _columns(runs: Sequence[Run]) -> tuple[Column, ...]:
    return (
        Column("sentence", "sentence", side="label"),
        Column("trained_on", "trained on", side="label"),
        Column("reference", "reference"),
        Column("program_output", "the author's program"),
        *(Column(f"seed{run.seed}", f"seed {run.seed}", "ours", "ours") for run in runs),
        Column("same_as_authors", "as the author's", "seeds that read the same", "ours"),
        Column("same_as_reference", "as the reference", "seeds that read the same", "ours"),
    )


def _pairs(frame: Frame, run: PublishedSentence) -> tuple[dict[str, str], set[str]]:
    """Return the reference by test sentence, and the sentences of training."""
    corpus = frame.corpora[run.corpus]
    if not isinstance(corpus.source, ShippedSource):
        raise TableError(
            f"corpus {run.corpus}: its text is not shipped; expected a source of kind shipped"
        )
    pairs_by_split = read_shipped(corpus.source)
    trained = {source for source, _ in pairs_by_split["train"]}
    return dict(pairs_by_split[run.testset]), trained


def _row(
    frame: Frame,
    sentence_index: int,
    published: PublishedSentence,
    reference: str,
    is_trained: bool,
) -> Row:
    mark, translations = MARK_BY_SCALE[frame.scale], frame.translations[published.key]
    lines = [output.lines[sentence_index] for output in translations.values()]
    quantity = (
        f"translation by {published.system}, {published.corpus}, {published.testset},"
        f" {published.average}"
    )

    def seed_cell(run: Run) -> Cell:
        if run.seed not in translations:
            return text_cell(run.word, "state", mark)
        line = translations[run.seed].lines[sentence_index] or "(nothing)"
        provenance = CellProvenance(
            quantity, (source_of(run, line),), translations[run.seed].signature
        )
        return replace(text_cell(line, "ours", mark), provenance=provenance)

    def count_cell(expected: str) -> Cell:
        if not lines:
            return text_cell(DASH, "state", mark)
        return text_cell(f"{lines.count(expected)} of {len(lines)}", "ours", mark)

    marks = () if is_trained else (OWN_REFERENCE_MARK,)
    return Row(
        (
            text_cell(published.sentence, "label"),
            text_cell("yes" if is_trained else "no", "label"),
            text_cell(reference, "printed", *marks),
            text_cell(published.program_output),
            *(seed_cell(run) for run in frame.runs_by_system[published.corpus, published.system]),
            count_cell(published.program_output),
            count_cell(reference),
        )
    )


def _notes(frame: Frame, run: PublishedSentence) -> tuple[Note, ...]:
    place = f"{run.source_repository}, {run.source_path} at {run.source_commit[:8]}"
    return (
        Note(
            f"A run of ours at scale {frame.scale}, on the tutorial's pairs: nothing of "
            "the paper's is reproduced or compared here.",
            MARK_BY_SCALE[frame.scale],
        ),
        Note(
            "Reference of this project: the tutorial gives no translation of what it does not "
            "train on.",
            OWN_REFERENCE_MARK,
        ),
        Note(
            "The author's program: its output, as its repository keeps none and the article could"
            f" not be read to its end ({place}; {run.program_run}). Ours are compared with it.",
        ),
        Note(
            "Unlike there, the end of sentence closes the source and begins the target. Begun so,"
            " the author's program (seed 1) is slower to learn, too, at 1.43 nats a word after 50"
            " updates instead of 0.42, and its last two outputs are \u201cte\u201d and \u201ces es"
            " es\u201d. The projections of q, k and v start from torch.nn.Transformer's"
            " distribution instead of torch.nn.Linear's, and a finished hypothesis takes no place"
            " in the beam, whose search ends when no other can beat it.",
        ),
    )

"""Translates the test set of a released model with this model, and compares the BLEU with the
published values.

A downloaded archive is read in one pass and verified by its published digest. An archive without a
published digest is verified by the checksums inside the archive and by the digest of the first
download. The lines of the test set are decoded in a fixed random order, in blocks. The translations
of a finished block are saved in a file, so that a second start continues with the next block. The
lines decoded so far are always a random sample of the test set.
"""

import contextlib
import datetime
import posixpath
import random
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from aiayn.cli.flags import choose_archives
from aiayn.cli.score import read_references
from aiayn.data.sources.archives import open_files
from aiayn.data.sources.download import PublishedFile, download_file, named_mirror
from aiayn.data.text.binarize import read_dictionary
from aiayn.data.text.detokenise import remove_marks
from aiayn.data.text.lines import write_lines
from aiayn.data.text.tokenize_moses import detokenize_line
from aiayn.decode.decode import Translator, load_split
from aiayn.errors import CorpusError, FetchError, StateError
from aiayn.machine import cpu_flops_per_second_per_core, cpu_name
from aiayn.progress import progress_bar
from aiayn.provenance import (
    existing_folder,
    gather_provenance,
    new_folder_on_success,
    replace_on_success,
    require_free_space,
)
from aiayn.records import write_record
from aiayn.released import (
    RECORD_NAME,
    ReleasedArchive,
    ReleasedModel,
    ReleasedRecord,
    read_released,
)
from aiayn.scoring.outputs.system_output import SystemOutput, check_num_lines
from aiayn.scoring.score import default_metrics, score_hypotheses
from aiayn.spec.system import DecodingSpec
from aiayn.terminal import listed, sections, table, titled
from analysis.released.heavy_dictionary_check import check_by_loss
from analysis.released.remarks import say

ORDER_SEED = 2014
LINES_PER_BLOCK = 100
# The ratio of the bytes of a model to the bytes of its archive. Floats can hardly be compressed.
UNPACKED_RATIO = 1.1
# The time for a line, in operations at a core's measured peak. Random weights of big take 2.8e10
# for lines of equal length (tests/benchmarks/bench_big.py). Half as much is added because real
# lines differ in length.
PEAK_FLOPS_PER_LINE = 4.0e10


def evaluate_released(args: Any, decoding: DecodingSpec, device: str) -> None:
    """Download the model given by `args.released`, check it, translate its test set, score the
    translations, and print the comparison with the published score.

    Raises:
        FetchError: if an archive cannot be downloaded, or differs from the archive of the first
            download.
        CorpusError: if an archive is truncated, or does not have the expected files and numbers.
        SpaceError: if the disk has too little space for archives and model.
        CheckpointError: if the dictionaries are not those with which the model was trained.
    """
    released = read_released(args.released)
    source, target = released.language_pair.split("-")
    folder = args.results / "released" / released.name
    archives = choose_archives(None)
    announce(released, archives)
    # fairseq-preprocess writes files with such names: test.en-de.de.bin has the target lines, and
    # its .idx says where each line begins.
    dictionaries = [f"dict.{language}.txt" for language in (source, target)]
    stem = f"test.{released.language_pair}"
    sides = [f"{stem}.{side}.{kind}" for side in (source, target) for kind in ("bin", "idx")]
    sha256_by_archive = {}
    # The model's dictionaries are unpacked, too, to compare their size with the published size.
    for part, archive, wanted in (
        ("model", released.model, ["model.pt", "bpecodes", *dictionaries]),
        ("data", released.data, [*sides, *dictionaries]),
    ):
        sha256_by_archive[archive.name] = fetch(archive, archives, folder / part, wanted)
    translator = Translator(folder / "model/model.pt", folder / "data", decoding, device=device)
    sources, targets = load_split(translator.task, "test")
    # The data-bin has the references as ids of pieces. Joined, they are the tokens that the
    # published BLEU was computed on.
    references = [translator.task.target_dictionary.string(line) for line in targets or []]
    references = list(map(remove_marks, references))
    check_numbers(released, folder, len(sources), references)
    if not args.no_warning:
        say(check_by_loss(translator, sources, targets or [], str(folder / "data")))
    # Blocks of different searches are in different folders. `|` and `:` are not allowed in file
    # names everywhere.
    search = decoding.signature
    blocks = folder / f"blocks {search}".replace("|", " ").replace(":", "")
    pieces_by_line = decode_blocks(translator, sources, blocks, args.max_lines or len(sources))
    chosen = sorted(pieces_by_line)
    tokens = [remove_marks(pieces_by_line[index]) for index in chosen]
    if args.output is not None:
        write_lines(tokens, args.output)
    # A score of a sample must not be quoted as a score of the whole test set.
    signature = f"|{search}|released:{released.name}"
    if len(chosen) < len(sources):
        signature += f"|partial:{len(chosen)}/{len(sources)}"
    # The published scores of this file were computed on the tokens, which is `bleu_as_given`.
    scores = score_hypotheses(
        tokens,
        [references[index] for index in chosen],
        metrics=["bleu_as_given"],
        target_language=target,
        testset=released.testset,
    )
    # The public references need a network. Without them the score on tokens is still right.
    try:
        # The public references are plain text. The model writes tokens, which must be detokenised
        # first.
        args.testset, args.language_pair = released.testset, released.language_pair
        public, place = read_references(args, None)
        check_num_lines(SystemOutput("the test set", references, "lines"), len(public), place)
        scores += score_hypotheses(
            [detokenize_line(line, target) for line in tokens],
            [public[index] for index in chosen],
            metrics=default_metrics(target, False),
            target_language=target,
            testset=released.testset,
        )
    except FetchError as error:
        say(f"only bleu_as_given: {error}")
    scores = [msgspec.structs.replace(s, signature=f"{s.signature}{signature}") for s in scores]
    # The record is written before anything is printed, so that `aiayn where` finds the scores
    # later.
    record = ReleasedRecord(
        provenance=gather_provenance(),
        name=released.name,
        language_pair=released.language_pair,
        testset=released.testset,
        search=search,
        num_lines=len(chosen),
        num_testset_lines=len(sources),
        sha256_by_archive=sha256_by_archive,
        hardware=cpu_name() if device == "cpu" else device,
        scores=scores,
    )
    write_record(record, folder / RECORD_NAME)
    print(render(released, record, decoding), end="")


def announce(released: ReleasedModel, archives: Path) -> None:
    """Print the sizes of the archives, the free space and the expected time, before anything is
    downloaded.

    Raises:
        SpaceError: if the disk has too little space for archives and model.
    """
    # An archive that is there already is not downloaded, but its content still needs space.
    missing = [a for a in (released.model, released.data) if not (archives / a.name).exists()]
    num_bytes = sum(archive.expected_bytes for archive in missing)
    needed = num_bytes + int(UNPACKED_RATIO * released.model.expected_bytes)
    require_free_space(archives, needed, f"the archives of {released.name} and their content")
    free = shutil.disk_usage(existing_folder(archives)).free
    minutes = released.num_lines * PEAK_FLOPS_PER_LINE / cpu_flops_per_second_per_core() / 60
    say(
        f"{released.name}: about {num_bytes / 1e9:.1f} GB to download (sizes are not published),"
        f" {needed / 1e9:.1f} GB in all, {free / 1e9:.0f} GB free; {released.num_lines:,} lines"
        f" take about {minutes:.0f} minutes of a core, {minutes / 2:.0f} minutes on two cores"
    )


def fetch(archive: ReleasedArchive, archives: Path, folder: Path, wanted: Sequence[str]) -> str:
    """Download an archive, unpack its wanted files into a folder, and return its digest.

    Raises:
        FetchError, CorpusError, SpaceError: for the same reasons as `evaluate_released`.
    """
    # This file records the digest and the date of the first download.
    seen_path = archives / f"{archive.name}.json"
    seen = msgspec.json.decode(seen_path.read_bytes()) if seen_path.exists() else {}
    # Without a published digest, the digest of the first download is used, so that a change on the
    # server is noticed.
    sha256 = archive.sha256 or seen.get("sha256", "")
    checksum = f"sha256:{sha256}" if sha256 else ""
    mirror = named_mirror(None)
    # The mirror comes first, because it is usually nearer.
    urls = [] if mirror is None else [f"{mirror.rstrip('/')}/released/{archive.name}"]
    files = [PublishedFile(archive.name, url, checksum) for url in (*urls, archive.url)]
    try:
        found = download_file(files, archives)
    except FetchError as error:
        first = f"; its digest is that of the download of {seen['date']}" if seen else ""
        raise FetchError(f"{error}; or put it into {archives}{first}") from error
    # Content of the same archive stays. With a new archive it is unpacked again.
    if not (folder.exists() and sha256 == found.sha256):
        shutil.rmtree(folder, ignore_errors=True)
        unpack(found.path, folder, wanted)
    if not sha256:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        with replace_on_success(seen_path) as partial_path:
            partial_path.write_bytes(msgspec.json.encode({"sha256": found.sha256, "date": today}))
        say(f"{found.path}: no digest is published; sha256 {found.sha256} is compared from now on")
    return found.sha256


def unpack(path: Path, folder: Path, wanted: Sequence[str]) -> None:
    """Unpack the wanted files of an archive into `folder`. The folders inside the archive are
    ignored.

    Raises:
        CorpusError: if the archive is truncated, or lacks a wanted file. The error lists the files
            in the archive.
    """
    names = []
    with new_folder_on_success(folder) as partial_folder:
        try:
            # A compressed tar can only be read from front to back, so all wanted files are taken in
            # one pass.
            for name, stream in open_files(path):
                # All names are collected, for an error if the archive has a different layout than
                # expected.
                names.append(name)
                if posixpath.basename(name) in wanted:
                    with (partial_folder / posixpath.basename(name)).open("wb") as unpacked:
                        shutil.copyfileobj(stream, unpacked)
        except (tarfile.ReadError, EOFError, OSError) as error:
            # The decompressor raises an OSError without an errno if the data is damaged. An errno
            # comes from the system, such as a full disk.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise CorpusError(
                f"{path}: cut or damaged ({error}); delete it, and start again to download it"
            ) from error
        missing = [name for name in wanted if not (partial_folder / name).exists()]
        say(f"{path.name}: {', '.join(names) or 'nothing'}")
        if missing:
            raise CorpusError(
                f"{path}: another layout than expected: no {', '.join(missing)}; it holds"
                f" {', '.join(names) or 'nothing'}; is it another archive of this name?"
            )


def check_numbers(
    released: ReleasedModel, folder: Path, num_lines: int, references: Sequence[str]
) -> None:
    """Compare the numbers of symbols, lines and reference tokens with the numbers that are
    published for this model.

    Raises:
        CorpusError: if a number differs. The error contains the first number that differs.
    """
    languages = released.language_pair.split("-")
    dictionaries = [read_dictionary(folder / f"model/dict.{name}.txt") for name in languages]
    # Both releases have a joint dictionary. Two different dictionaries would mean that files of two
    # releases were mixed.
    if dictionaries[0] != dictionaries[1]:
        raise CorpusError(f"{folder}/model: two different dictionaries; expected a joint one")
    num_tokens = sum(len(line.split()) for line in references)
    for name, number, expected in (
        ("symbols", len(dictionaries[0]), released.num_symbols),
        ("lines", num_lines, released.num_lines),
        ("tokens in the references", num_tokens, released.num_reference_tokens),
    ):
        if number != expected:
            raise CorpusError(
                f"{folder}: {number:,} {name}, expected {expected:,}: not {released.name} as it was"
                " released in 2018"
            )


def decode_blocks(
    translator: Translator, sources: Sequence[Any], blocks: Path, max_lines: int
) -> dict[int, str]:
    """Return the translation of each decoded line in subword pieces, by line number. `max_lines`
    lines, rounded up to whole blocks, are decoded, or fewer after Ctrl-C.

    Blocks that were decoded by an earlier start are read from their files.

    Raises:
        StateError: if Ctrl-C came before the end of the first block.
    """
    # The same order at each start, so that the blocks on the disk fit.
    order = random.Random(ORDER_SEED).sample(range(len(sources)), len(sources))
    pieces_by_line: dict[int, str] = {}
    num_lines = min(max_lines, len(sources))
    num_done = min(num_lines, LINES_PER_BLOCK * len(list(blocks.glob("*.json"))))
    with (
        contextlib.suppress(KeyboardInterrupt),
        progress_bar("decode", num_lines, " lines", initial=num_done) as bar,
    ):
        # Ctrl-C ends the loop. The block in progress is lost, all earlier blocks are kept.
        for begin in range(0, num_lines, LINES_PER_BLOCK):
            chosen = order[begin : begin + LINES_PER_BLOCK]
            path = blocks / f"{begin:06}.json"
            if not path.exists():
                hypotheses = translator.translate([sources[index] for index in chosen], bar)
                lines = [" ".join(hypothesis.pieces) for hypothesis in hypotheses]
                with replace_on_success(path) as partial_path:
                    partial_path.write_bytes(msgspec.json.encode(lines))
            lines = msgspec.json.decode(path.read_bytes(), type=list[str])
            pieces_by_line.update(zip(chosen, lines, strict=True))
    if not pieces_by_line:
        raise StateError(f"{blocks}: no block of {LINES_PER_BLOCK} lines is finished; start again")
    if len(pieces_by_line) < len(sources):
        # After Ctrl-C the same command decodes the rest. A sample ends where it was meant to end.
        was_stopped = len(pieces_by_line) < num_lines
        command = "the same command" if was_stopped else "a larger --max-lines"
        say(f"partial: {len(pieces_by_line)} of {len(sources)} lines; {command} continues")
    return pieces_by_line


def render(released: ReleasedModel, record: ReleasedRecord, decoding: DecodingSpec) -> str:
    """Return the comparison of our score with the published score of a released model, as text."""
    # Only numbers of the same search are compared with ours.
    by_fairseq = decoding.length_penalty_form == "len" and decoding.stop == "fairseq"
    search = (decoding.beam_size, decoding.length_penalty_alpha) if by_fairseq else None
    rows = [("definition", "here", "published", "the paper")]
    values_by_metric: dict[str, list[str]] = {}
    # Scores that were published for a different search are listed below the table.
    others = []
    for published in released.published:
        if (published.beam_size, published.alpha) == search:
            values_by_metric.setdefault(published.metric, []).append(f"{published.value:.2f}")
            continue
        settings = f"beam {published.beam_size}, alpha {published.alpha:g}"
        value = f"{published.metric} {published.value:.2f}"
        others.append(f"{value} with {settings} ({published.source})")
    # A published score is next to ours only in the same definition and the same search.
    for score in record.scores:
        values = ", ".join(values_by_metric.get(score.metric, []))
        printed = f"{released.printed.value:.1f}" if score.metric == released.printed.metric else ""
        rows.append((score.metric, f"{score.value:.2f}", values, printed))
    title = f"{released.name}, {record.testset}: released model, decoded here"
    if record.num_lines < record.num_testset_lines:
        title += f", PARTIAL: {record.num_lines:,} of {record.num_testset_lines:,} lines"
    return sections(
        ("", titled(title)),
        ("", table(rows, right=(1, 2, 3), num_headings=1)),
        ("published for this file with another search", listed(others)),
        ("what differs from the paper", listed(released.differences)),
        ("signatures", [f"{score.metric}  {score.signature}" for score in record.scores]),
    )

"""The steps that bench_data.py measures: ours by their verbs, and what others would run in their place.

A peer gets what our own step got, so that its result must be ours: the same raw text to tokenise, our tokens to learn
codes from, our model or codes to split with. `check` compares, after the time is taken.
"""

import filecmp
import json
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from aiayn.provenance import gather_provenance
from aiayn.records import RawCorpus, SegmentedText, read_record, write_record
from aiayn.spec import CorpusSpec
from aiayn.text.lines import count_lines, text_pair
from tests.benchmarks.measuring import Command

OURS, PEER = "ours", "peer"
ROUTES = ("wmt14_en_de", "wmt16_en_de_google")
SENTENCEPIECE_PEER = Path(__file__).with_name("sentencepiece_peer.py")


@dataclass(frozen=True)
class Step:
    """One thing to measure: commands, run one after the other, whose outputs lie in `folder`.

    `check` returns whether a peer's result is ours; none where they cannot be alike.
    """

    route: str
    side: str
    name: str
    what: str
    folder: Path
    commands: list[Command]
    needed_program: str | None = None
    check: Callable[[], bool] | None = None

    @property
    def label(self) -> str:
        """What --only is matched with."""
        return f"{self.route}/{self.side}/{self.name}"

    def make_folder(self) -> None:
        """Begin with an empty folder: what a killed run left would make this one look faster."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)


@dataclass(frozen=True)
class Route:
    """A recipe and where its benchmark lies."""

    spec: CorpusSpec
    raw_folder: Path
    folder: Path
    num_processes: int
    languages: tuple[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "languages", (self.spec.source_language, self.spec.target_language))

    def steps(self) -> Iterator[Step]:
        """Yield our steps, then the peers', each to be run before the next is asked for: it may need what that left."""
        yield from self._our_steps()
        yield from self._moses_peers() if self.is_moses else self._sentencepiece_peers()

    @property
    def is_moses(self) -> bool:
        """True if the recipe has Moses tokens and subword-nmt's codes."""
        return self.spec.subword is not None and self.spec.subword.method == "subword_nmt"

    def record_path(self, verb: str) -> Path:
        """Return the record of one of our steps; fetch's is written by `write_raw_record`."""
        return self.folder / OURS / verb / "record.json"

    def write_raw_record(self) -> None:
        """Write the record that fetch would have written of the raw text, unless it is there."""
        path = self.record_path("fetch")
        if path.exists():
            return
        splits = ("train", *self.spec.testsets)
        pairs = {
            split: text_pair({language: self.raw_folder / f"{split}.{language}" for language in self.languages})
            for split in splits
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        write_record(RawCorpus(provenance=gather_provenance(), corpus=self.spec.name, pair_by_split=pairs), path)

    def _our_steps(self) -> Iterator[Step]:
        inputs = {
            "clean": {"--raw": "fetch"},
            "segment": {"--text": "clean"},
            "binarize": {"--text": "clean", "--segmented": "segment"},
        }
        for verb, verb_by_flag in inputs.items():
            flags = [part for flag, of in verb_by_flag.items() for part in (flag, str(self.record_path(of)))]
            arguments = [sys.executable, "-m", "aiayn", verb, "--corpus", self.spec.name, *flags, "--record",
                         str(self.record_path(verb)), "--num-processes", str(self.num_processes)]  # fmt: skip
            yield Step(self.spec.name, OURS, verb, f"aiayn {verb}", self.record_path(verb).parent, [Command(arguments)])

    def _clean_path(self, split: str, language: str) -> Path:
        return self.record_path("clean").parent / f"{split}.{language}"

    def _peer(self, name: str, what: str, program: str | None, commands: Iterable[Command]) -> Step:
        return Step(self.spec.name, PEER, name, what, self._peer_folder(name), list(commands), program)

    def _peer_folder(self, name: str) -> Path:
        return self.folder / PEER / name

    def _sentencepiece_peers(self) -> Iterator[Step]:
        texts = [str(self._clean_path("train", language)) for language in self.languages]
        vocabulary_path = self._segmented_path("vocabulary_path_by_language")
        num_pieces = count_lines(vocabulary_path) if vocabulary_path.exists() else 0  # as many as ours
        learn = [sys.executable, SENTENCEPIECE_PEER, "learn", self._peer_folder("learn") / "joint", num_pieces,
                 self.num_processes, sample_lines(self.spec), *texts]  # fmt: skip
        yield self._peer("learn", "sentencepiece, its own sample", None, [Command(list(map(str, learn)))])
        yield self._peer("encode", "sentencepiece, our model", None, self._split_commands("encode"))
        yield self._preprocess("encode")

    def _moses_peers(self) -> Iterator[Step]:
        folder = self._peer_folder("tokenise")
        tokenise = self._peer(
            "tokenise",
            f"sacremoses -j {self.num_processes} tokenize -x",
            "sacremoses",
            [
                Command(
                    ["sacremoses", "-q", "-l", language, "-j", str(self.num_processes), "tokenize", "-x"],
                    self.raw_folder / f"train.{language}",
                    folder / f"train.{language}",
                )
                for language in self.languages
            ],
        )
        yield _checked(tokenise, lambda: self._tokens_are_ours(folder))
        yield self._learn_codes()
        yield self._peer("encode", "subword-nmt apply-bpe, our codes", "subword-nmt", self._split_commands("encode"))
        yield self._preprocess("encode")

    def _learn_codes(self) -> Step:
        assert self.spec.subword is not None
        folder = self._peer_folder("learn")
        texts = [str(self._clean_path("train", language)) for language in reversed(self.languages)]
        script = (
            f"cat {shlex.join(texts)} > {shlex.quote(str(folder / 'joint'))} && "
            f"exec subword-nmt learn-bpe --input {shlex.quote(str(folder / 'joint'))} --symbols "
            f"{self.spec.subword.vocabulary_size} --num-workers {self.num_processes} > "
            f"{shlex.quote(str(folder / 'codes'))}"
        )
        learn = self._peer("learn", "subword-nmt learn-bpe", "subword-nmt", [Command(["sh", "-c", script])])
        return _checked(learn, lambda: _same_lines(folder / "codes", self.model_path()))

    def _split_commands(self, name: str) -> Iterator[Command]:
        for split in ("train", *self.spec.testsets):
            for language in self.languages:
                if self.is_moses:
                    arguments = ["subword-nmt", "apply-bpe", "--codes", str(self.model_path())]
                    # It splits its input file itself when it has several workers, and reads no standard input then.
                    arguments += ["--input", str(self._clean_path(split, language)), "--num-workers",
                                  str(self.num_processes)]  # fmt: skip
                else:
                    arguments = [sys.executable, str(SENTENCEPIECE_PEER), "encode", str(self.model_path()),
                                 str(self.num_processes)]  # fmt: skip
                output_path = self._peer_folder(name) / f"{split}.{language}"
                yield Command(arguments, self._clean_path(split, language), output_path)

    def _preprocess(self, pieces_name: str) -> Step:
        pieces, folder = self._peer_folder(pieces_name), self._peer_folder("preprocess") / "data-bin"
        names = ["train", *self.spec.testsets]
        arguments = ["fairseq-preprocess", "--source-lang", self.languages[0], "--target-lang", self.languages[1],
                     "--trainpref", str(pieces / names[0]), "--validpref", str(pieces / names[1]),
                     "--testpref", ",".join(str(pieces / name) for name in names[2:]), "--destdir", str(folder),
                     "--joined-dictionary", "--padding-factor", "1", "--workers", str(self.num_processes)]  # fmt: skip
        what = f"fairseq-preprocess --workers {self.num_processes}"
        step = self._peer("preprocess", what, "fairseq-preprocess", [Command(arguments)])
        return _checked(step, lambda: _same_data_bins(folder, self.record_path("binarize").parent / "data-bin"))

    def model_path(self) -> Path:
        """Return what our segment step has learnt, a model or codes; a place that is not there before it has."""
        return self._segmented_path("model_path_by_language")

    def learning_seconds(self, step: Step, wall_seconds: float) -> float:
        """Return for how long a finished step learnt: ours by its record, a peer's all its time, other steps not."""
        if step.side == PEER:
            return wall_seconds if step.name == "learn" else 0.0
        if step.name != "segment":
            return 0.0
        record = json.loads(self.record_path("segment").read_text(encoding="utf-8"))
        return sum(float(learning["seconds"]) for learning in record["learning_by_model"].values())

    def most_learnt_pairs(self) -> int | None:
        """Return how many pairs of lines pieces are learnt from at most, None for all."""
        return sample_lines(self.spec) // len(self.languages) or None

    def _segmented_path(self, key: str) -> Path:
        path = self.record_path("segment")
        if not path.exists():
            return path.with_name("not-yet")
        path_by_language: dict[str, Path] = getattr(read_record(path, SegmentedText), key)
        return path_by_language[self.spec.source_language]

    def _tokens_are_ours(self, folder: Path) -> bool:
        """Return whether the pairs that we kept stand in this order among all that the peer has tokenised."""
        ours = _pairs([self._clean_path("train", language) for language in self.languages])
        theirs = _pairs([folder / f"train.{language}" for language in self.languages])
        return all(pair in theirs for pair in ours)  # `in` moves the iterator to behind the pair


def sample_lines(spec: CorpusSpec) -> int:
    """Return how many lines our own learning draws, 0 for all."""
    return 0 if spec.subword is None else spec.subword.sample_lines or 0


def _checked(step: Step, check: Callable[[], bool]) -> Step:
    return Step(**{**vars(step), "check": check})


def _pairs(paths: Iterable[Path]) -> Iterator[tuple[bytes, ...]]:
    """Yield lines in step; each is stripped, for the Moses tokeniser's may end in a blank, which is no token."""
    with_files = [path.open("rb") for path in paths]
    try:
        for lines in zip(*with_files, strict=True):
            yield tuple(b" ".join(line.split()) for line in lines)
    finally:
        for content in with_files:
            content.close()


def _same_lines(one: Path, other: Path) -> bool:
    return one.read_bytes().split() == other.read_bytes().split()


def _same_data_bins(one: Path, other: Path) -> bool:
    names = sorted(path.name for path in other.iterdir())
    same, _, _ = filecmp.cmpfiles(one, other, names, shallow=False)
    return bool(names) and sorted(same) == names

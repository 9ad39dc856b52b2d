"""Find out why a BLEU is too low: compare a run's logs and records with what its system should
have.

WHAT is RUN, a run's name, any unique beginning of the name or the run's folder (default: the newest
finished run), or FOLDER, a folder with the logs of any fairseq training and the output of
fairseq-generate. Each finding has its evidence (file, line, value, expected value), its cost in
BLEU with the source, and the fix. A cost is used only if it was published for the run's corpus and
for a difference of this size. The finding with the highest cost comes first. `aiayn explain`
compares the BLEU with the paper's. `aiayn score` says whether the BLEU is low because of the form
of the lines (case, tokenisation, ...).

Exit code 0: no difference was found. Exit code 1: a difference was found, the files do not state a
setting that is needed, or an input is wrong. Exit code 2: wrong usage.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from aiayn.cli.config import read_changed_scale
from aiayn.cli.flags import CONFIG, JSON, RESULTS, flag
from aiayn.errors import AiaynError, UsageError
from aiayn.packed import is_dir, is_file
from aiayn.runs.attempts import ATTEMPTS_NAME
from aiayn.runs.names import match_run
from aiayn.spec.system import Overrides
from aiayn.terminal import json_text

if TYPE_CHECKING:
    from analysis.doctor.types import Diagnosis

EXAMPLE = "aiayn doctor my_run/ --system base --corpus wmt14_en_de"


class Flags:
    what: str | None = flag("RUN or FOLDER, see above", "WHAT", is_positional=True)
    results: Path = RESULTS
    runs_folder: Path = flag(
        "where to look for RUN's log if it is not where its record says (default: runs)",
        "FOLDER",
        default=Path("runs"),
    )
    scale: str | None = flag("for FOLDER: demo, multi30k or paper (default: paper)")
    system: str | None = flag("for FOLDER: the system that it should be, such as base")
    corpus: str | None = flag("for FOLDER: the corpus of the training, as wmt14_en_de")
    configfile: Path | None = flag(
        "the scale's config file, needed if it sets `updates` or `precision`", "FILE"
    )
    config: list[str] = CONFIG
    json: bool = JSON


def run(args: Flags) -> None:
    """Print the diagnosis of the run or folder.

    Raises:
        AiaynError: if a difference was found, or if a needed setting is not stated, so that the
            exit code is 1.
    """
    from analysis.doctor.text import headline, render_diagnosis

    # WHAT may be the name of a run, or a folder. The folder of one of our runs has an
    # attempts.jsonl. With --system such a folder is treated as any folder of logs: the user says
    # what it should be.
    folder = Path(args.what) if args.what is not None and is_dir(Path(args.what)) else None
    if (
        folder is not None and args.system is None and is_file(folder / ATTEMPTS_NAME)
    ):  # a run of ours
        args.what, folder = folder.resolve().name, None
    diagnosis = _diagnose_run(args) if folder is None else _diagnose_folder(args, folder)
    print(json_text(diagnosis) if args.json else render_diagnosis(diagnosis), end="")
    if diagnosis.findings or diagnosis.not_judged:
        # The error gives exit code 1, so that a script notices a finding.
        raise AiaynError(headline(diagnosis))


def _diagnose_run(args: Flags) -> "Diagnosis":
    from analysis.doctor.collect import list_runs
    from analysis.doctor.diagnose import diagnose_run

    if args.what is not None and is_file(Path(args.what)):
        parent = Path(args.what).parent
        raise UsageError(
            f"{args.what}: is a file; give its folder, {parent}, with --system and --corpus"
        )
    # A path with a slash cannot be a run's name: "no such folder" is the better message.
    if args.what is not None and "/" in args.what and not Path(args.what).exists():
        raise UsageError(f"{args.what}: no such folder; name one, or a run of `aiayn status`")
    why = f"{args.what or 'the newest run'} is a run, whose records name its system"
    for name in ("scale", "system", "corpus"):
        if getattr(args, name) is not None:
            raise UsageError(f"--{name}: belongs to a FOLDER; {why}; omit it")
    path_by_name = list_runs(args.results)
    name = list(path_by_name)[-1]
    if args.what is not None:
        name = match_run(
            args.what,
            path_by_name,
            location=str(args.results),
            unknown="is neither a folder nor a finished run",
        )
    return diagnose_run(args.results, args.runs_folder, path_by_name[name], _overrides(args))


def _diagnose_folder(args: Flags, folder: Path) -> "Diagnosis":
    from analysis.doctor.diagnose import diagnose_folder, make_claim

    # Logs state their settings, but not which system they should be.
    if args.system is None or args.corpus is None:
        name = "--system" if args.system is None else "--corpus"
        raise UsageError(
            f"{name}: is missing; the folder {args.what} does not say what it is; see --help"
        )
    claim = make_claim(
        str(args.what), args.scale or "paper", args.system, args.corpus, _overrides(args)
    )
    return diagnose_folder(folder, claim)


def _overrides(args: Flags) -> Overrides:
    """Return the values (such as `updates`) that the config sets for all systems of its scale.

    Raises:
        UsageError: if --config is given without --configfile.
    """
    # A shorter training is no fault if the config of the scale says so (`updates: 500`).
    if args.configfile is None:
        if args.config:
            raise UsageError(f"--config {args.config[0]}: no file to change; add --configfile FILE")
        return Overrides()
    return read_changed_scale(args.configfile, args.config).overrides

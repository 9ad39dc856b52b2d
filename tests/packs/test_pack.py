"""What finished runs left, packed: tables follow from the pack, byte for byte, and it names
no machine.
"""

import json
import shutil
import zipfile
from pathlib import Path

import msgspec
import pytest

from aiayn.errors import RecordError, StateError
from aiayn.packed import ARCHIVE_NAME, exists, glob, is_file, read_bytes
from aiayn.paths import corpus_record, evaluation_record, train_record
from aiayn.records import TrainRecord, read_record, write_record
from aiayn.spec.system import ScaleSpec
from analysis.packs.pack import Packed, pack_scale
from paper_tables.logs.pages import make_tables_from_logs
from tests.records_factory import Site, make_site, run_of, write_left, write_sealed

ONE_MB = 1_000_000
FIRST_SEEDS = "base:1 big_enfr:1 table3_c_n2 pre_norm revisit_tiny:1"
FRAMES = ("scores.tsv", "summary.tsv", "verdicts.tsv")


@pytest.fixture
def site(tmp_path: Path, quick_packing: None) -> Site:
    systems = {"en_de_systems": ["base"], "en_fr_systems": ["big_enfr"], "variants": ["pre_norm"]}
    made = make_site(tmp_path / "made", **systems, replications=["revisit_tiny"])
    write_left(made)
    return made


def pack(site: Site, output: Path, **changes: object) -> Packed:
    scale = msgspec.convert(msgspec.to_builtins(site.scale) | changes, ScaleSpec)
    return pack_scale(
        scale, site.results_folder, output, max_bytes=ONE_MB, config_folder=site.config_folder
    )


def render(site: Site, *folders: Path) -> Path:
    """Render from only the folders; return the folder of the scale."""
    output = site.results_folder.parent / "again"
    shutil.rmtree(output, ignore_errors=True)
    make_tables_from_logs(list(folders), output, site.config_folder)
    return output / site.scale.scale


def texts(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def rendered(folder: Path) -> dict[str, bytes]:
    """Return what is rendered, of a pack or of an output."""
    return {
        name: text
        for name, text in texts(folder).items()
        if name in FRAMES or name.startswith("tables/")
    }


def test_the_same_runs_give_the_same_bytes_also_over_an_earlier_pack(
    site: Site, tmp_path: Path
) -> None:
    first = texts(pack(site, tmp_path / "one").folder)
    (tmp_path / "one" / "demo" / "left.txt").write_text("by an earlier pack", encoding="utf-8")
    assert texts(pack(site, tmp_path / "one").folder) == first
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["demo"]


def test_a_pack_is_one_archive_besides_what_people_open(site: Site, tmp_path: Path) -> None:
    folder = pack(site, tmp_path / "one").folder
    assert {path.name for path in folder.iterdir()} - {"figures"} == {
        ARCHIVE_NAME,
        "README.md",
        "picture.svg",
        "picture.tsv",
        "scores.tsv",
        "summary.tsv",
        "tables",
        "trainings.tsv",
        "verdicts.tsv",
    }
    first = texts(folder)
    unpack(folder)
    assert rendered(render(site, folder)) == rendered(folder)
    assert texts(pack(site, tmp_path / "one").folder) == first


def lose_run(site: Site, corpus: str, system: str, seed: int) -> None:
    """Delete what one run left on this machine."""
    train_record(site.results_folder, "demo", corpus, system, seed).unlink()
    shutil.rmtree(Path(site.scale.runs_folder) / run_of(corpus, system, seed))
    for verb in ("average", "decode", "perplexity", "score"):
        shutil.rmtree(
            site.results_folder / "demo" / verb / corpus / system / f"seed{seed}",
            ignore_errors=True,
        )


def unpack(pack_folder: Path) -> None:
    """Make a pack a folder of loose files, as earlier versions wrote it."""
    with zipfile.ZipFile(pack_folder / ARCHIVE_NAME) as archive:
        archive.extractall(pack_folder)
    (pack_folder / ARCHIVE_NAME).unlink()


def rewrite(path: Path, **changes: object) -> None:
    """Change a record; that of a pack then lies next to the archive, and hides the one there."""
    content = read_bytes(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_sealed(json.dumps(json.loads(content) | changes), path)


@pytest.mark.usefixtures("without_tables")
def test_runs_that_are_no_longer_here_stay_in_the_pack(site: Site, tmp_path: Path) -> None:
    first = texts(pack(site, tmp_path / "measured").folder)
    lose_run(site, "demo_en_de", "base", 2)
    lose_run(site, "demo_en_fr", "big_enfr", 1)
    shutil.rmtree(site.results_folder / "demo" / "binarize" / "demo_en_fr")
    again = site.results_folder / "demo" / "binarize" / "demo_en_de" / "record.json"
    rewrite(
        again,
        provenance=json.loads(again.read_bytes())["provenance"]
        | {"created": "of the same data, later"},
    )
    packed = pack(site, tmp_path / "measured")
    assert (packed.num_kept, packed.num_runs, packed.missing, packed.left_out) == (
        2,
        packed.num_asked,
        (),
        (),
    )
    assert texts(packed.folder) == first
    assert pack(site, tmp_path / "another").num_kept == 0


@pytest.mark.usefixtures("without_tables")
@pytest.mark.parametrize("differs", ["spec", "data"])
def test_a_run_of_another_spec_or_of_other_data_does_not_stay_in_the_pack(
    site: Site, tmp_path: Path, differs: str
) -> None:
    earlier = pack(site, tmp_path / "measured").folder
    lose_run(site, "demo_en_de", "base", 2)
    if differs == "data":
        rewrite(earlier / "binarize/demo_en_de/record.json", digest="of other text")
    else:
        path = earlier / "train/demo_en_de/base/seed2.json"
        training = json.loads(json.loads(read_bytes(path))["training_json"])
        rewrite(path, training_json=json.dumps(training | {"updates": training["updates"] + 1}))
    packed = pack(site, tmp_path / "measured")
    assert (packed.num_kept, packed.missing) == (0, ("demo_en_de base seed 2: missing",))
    assert packed.left_out == ("demo_en_de base seed 2: another spec or other data",)
    assert not exists(packed.folder / "train/demo_en_de/base/seed2.json")


@pytest.mark.usefixtures("without_tables")
def test_a_run_that_is_no_longer_asked_for_leaves_the_pack_and_is_named(
    site: Site, tmp_path: Path
) -> None:
    pack(site, tmp_path / "measured")
    packed = pack(site, tmp_path / "measured", only=FIRST_SEEDS)
    names = ("demo_en_de base", "demo_en_fr big_enfr", "multi30k_revisit_en_de revisit_tiny")
    assert packed.left_out == tuple(f"{name} seed 2: not asked for" for name in names)
    assert pack(site, tmp_path / "measured", only=FIRST_SEEDS).left_out == ()


@pytest.mark.usefixtures("without_tables")
@pytest.mark.parametrize(
    ("is_torn", "message"),
    [
        (False, r"demo/runs/.*/train\.log: no such file; .* restore it in the earlier pack"),
        (True, r"train\.log\.xz: cannot be unpacked .* Nothing was changed"),
    ],
)
def test_a_missing_or_torn_log_of_the_earlier_pack_is_named_and_nothing_is_changed(
    is_torn: bool, message: str, site: Site, tmp_path: Path
) -> None:
    earlier = pack(site, tmp_path / "measured").folder
    lose_run(site, "demo_en_de", "base", 2)
    unpack(earlier)
    log_path = earlier / "runs" / run_of("demo_en_de", "base", 2) / "train.log.xz"
    if is_torn:
        log_path.write_bytes(log_path.read_bytes()[:-20])
    else:
        log_path.unlink()
    before = texts(earlier)
    with pytest.raises(RecordError, match=message):
        pack(site, tmp_path / "measured")
    assert texts(tmp_path / "measured") == {
        f"demo/{name}": content for name, content in before.items()
    }


def test_half_of_the_runs_are_packed_and_the_rest_is_named(site: Site, tmp_path: Path) -> None:
    for seed in (1, 2):
        train_record(site.results_folder, "demo", "demo_en_fr", "big_enfr", seed).unlink()
    train_record(site.results_folder, "demo", "demo_en_de", "base", 2).unlink()
    evaluation = next(e for e in site.experiment.evaluations if e.system == "table3_c_n2")
    evaluation_record(site.results_folder, "demo", "score", evaluation).unlink()
    packed = pack(site, tmp_path / "measured")
    missing = tuple(
        f"{name}: not recorded"
        for name in (
            "demo_en_de base seed 2",
            "demo_en_fr big_enfr seed 1",
            "demo_en_fr big_enfr seed 2",
        )
    )
    assert (packed.num_runs, packed.num_asked, packed.missing) == (5, 8, missing)
    readme = (packed.folder / "README.md").read_text(encoding="utf-8")
    assert "- demo_en_fr big_enfr, seeds 1, 2\n" in readme
    assert "(n=1 of 2: 1 missing)" in readme
    assert packed.num_bytes == sum(map(len, texts(packed.folder).values()))
    assert rendered(render(site, packed.folder)) == rendered(packed.folder)


@pytest.mark.usefixtures("without_tables")
def test_nothing_of_this_machine_is_in_a_pack(site: Site, tmp_path: Path) -> None:
    path = train_record(site.results_folder, "demo", "demo_en_de", "base", 1)
    train = read_record(path, TrainRecord)
    home, runs = Path.home() / "data", Path(site.scale.runs_folder).absolute()
    made = msgspec.structs.replace(
        train.provenance, host="secret-node", command=f"aiayn train --data {home}"
    )
    write_record(
        msgspec.structs.replace(train, provenance=made, run_folder=str(runs / train.run)), path
    )
    fetched = corpus_record(site.results_folder, "demo", "fetch", "demo_en_de")
    provenance = json.loads(fetched.read_bytes())["provenance"]
    rewrite(
        fetched,
        provenance=provenance
        | {"command": f"aiayn fetch --mirror=file://{tmp_path} --record fetch.json"},
    )
    packed = pack(site, tmp_path / "measured").folder
    contents = {
        path.relative_to(packed).as_posix(): read_bytes(path)
        for path in glob(packed, "**/*")
        if is_file(path)
    }
    for word in (str(tmp_path), str(Path.home()), "secret-node", '"here"'):
        assert [name for name, content in contents.items() if word.encode() in content] == []
    copied = json.loads(contents["fetch/demo_en_de/record.json"])
    assert copied["provenance"]["command"] == "aiayn fetch --mirror= --record fetch.json"
    copied = json.loads(contents["train/demo_en_de/base/seed1.json"])
    assert copied["provenance"]["command"] == "aiayn train --data ~/data"
    assert copied["run_folder"] == f"runs/{train.run}"
    log = contents[f"runs/{train.run}/train.log.xz"].decode()
    assert log == f"a log of {train.run}, kept below runs/{train.run}\n"


@pytest.mark.usefixtures("without_tables")
def test_a_log_of_a_run_trained_elsewhere_names_no_folder_of_there(
    site: Site, tmp_path: Path
) -> None:
    run = run_of("demo_en_de", "base", 1)
    log_path = Path(site.scale.runs_folder) / run / "train.log"
    line = (
        f"save_dir='/scratch/me/project/runs/{run}/checkpoints',"
        " data='/scratch/me/project/results/bin', x=/etc\n"
    )
    log_path.write_text(line, encoding="utf-8")
    path = train_record(site.results_folder, "demo", "demo_en_de", "base", 1)
    train = read_record(path, TrainRecord)
    made = msgspec.structs.replace(
        train.provenance, command="aiayn train --record /scratch/me/project/mine.json"
    )
    write_record(msgspec.structs.replace(train, provenance=made), path)
    folder = pack(site, tmp_path / "measured").folder
    copied = json.loads(read_bytes(folder / "train/demo_en_de/base/seed1.json"))
    assert copied["provenance"]["command"] == "aiayn train --record mine.json"
    packed = read_bytes(folder / "runs" / run / "train.log.xz")
    assert packed.decode() == f"save_dir='runs/{run}/checkpoints', data='results/bin', x=/etc\n"


def test_scores_of_other_translations_are_not_packed(site: Site, tmp_path: Path) -> None:
    evaluation = site.experiment.evaluations[0]
    text_path = evaluation_record(site.results_folder, "demo", "decode", evaluation).with_suffix(
        ".txt"
    )
    text_path.write_text("another translation\n", encoding="utf-8")
    with pytest.raises(
        RecordError, match=rf"{text_path.name}: sha256 [0-9a-f]{{64}}, but the scores belong to"
    ):
        pack(site, tmp_path / "measured")
    assert list((tmp_path / "measured").iterdir()) == []


@pytest.mark.usefixtures("without_tables")
def test_a_pack_that_is_too_large_is_refused_and_nothing_is_changed(
    site: Site, tmp_path: Path
) -> None:
    earlier = tmp_path / "measured" / "demo"
    earlier.mkdir(parents=True)
    (earlier / "README.md").write_text("an earlier pack", encoding="utf-8")
    (earlier / "runs").mkdir()
    with pytest.raises(
        RecordError, match=r"measured/demo: 0\.\d\d MB, expected 0.00 MB at most; ask for"
    ):
        pack_scale(
            site.scale,
            site.results_folder,
            tmp_path / "measured",
            max_bytes=1000,
            config_folder=site.config_folder,
        )
    assert texts(tmp_path / "measured") == {"demo/README.md": b"an earlier pack"}


@pytest.mark.usefixtures("without_tables")
def test_an_interruption_while_the_pack_is_replaced_keeps_the_old_pack(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = pack(site, tmp_path / "measured").folder
    before = texts(target)
    rename = Path.rename

    def interrupted(path: Path, to: Path) -> Path:
        # The first rename moves the old pack away, the second moves the new pack to its place.
        if to == target and path.name == target.name:
            raise KeyboardInterrupt
        return rename(path, to)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pack(site, tmp_path / "measured")
    assert texts(target) == before
    assert [path.name for path in (tmp_path / "measured").iterdir()] == [target.name]


def test_a_folder_that_is_no_pack_is_never_replaced(site: Site, tmp_path: Path) -> None:
    (tmp_path / "measured" / "demo").mkdir(parents=True)
    (tmp_path / "measured" / "demo" / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(StateError, match=r"measured/demo: exists and is not a pack"):
        pack(site, tmp_path / "measured")
    assert texts(tmp_path / "measured") == {"demo/mine.txt": b"mine"}


def test_without_a_finished_run_or_its_log_there_is_nothing_to_pack(
    site: Site, tmp_path: Path
) -> None:
    log_path = Path(site.scale.runs_folder) / run_of("demo_en_de", "base", 1) / "train.log"
    log_path.unlink()
    with pytest.raises(RecordError, match=r"base-seed1-0a1b2c3d/train.log: no such file"):
        pack(site, tmp_path / "measured")
    shutil.rmtree(site.results_folder / "demo" / "train")
    with pytest.raises(RecordError, match="no finished training"):
        pack(site, tmp_path / "measured")

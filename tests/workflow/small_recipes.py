"""Small archives of exactly the layout that the WMT14 recipes describe, and recipes that inherit
the real ones.

A small recipe overrides base URLs, sizes, sums, counts and the vocabulary's size: what is checked
stays checked.
"""

import gzip
import hashlib
import io
import random
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from aiayn.spec.corpus import ArchiveSource
from aiayn.spec.system import CONFIG_FOLDER, CorpusSpec
from tests.workflow.loopback_server import LoopbackServer

# Of each archive: pairs, of which the last are the odd ones below.
NUM_LINES_BY_ARCHIVE = {
    "europarl_v7": 120, "commoncrawl": 90, "news_commentary_v9": 40, "giga_fren": 150, "undoc_2000": 70,
    "europarl_v7_de_en": 120, "news_commentary_v11": 45,
}  # fmt: skip
# Of training's words alone: a piece that training does not have is <unk> in fairseq's dictionary.
_TESTSET_TEXTS = {
    "newstest2013": {"en": "the red bird", "de": "a red house", "fr": "red red river"},
    "newstest2014": {"en": "the blue bird", "de": "a blue house", "fr": "blue blue river"},
}
TESTSETS = {
    language_pair: {
        testset: {
            language: f"{texts[language]}\nno-break\u00a0space\n".encode()
            for language in language_pair.split("-")
        }
        for testset, texts in _TESTSET_TEXTS.items()
    }
    for language_pair in ("en-de", "en-fr")
}
_WORDS = (
    "a",
    "the",
    "house",
    "tree",
    "river",
    "stone",
    "bird",
    "old",
    "new",
    "red",
    "blue",
    "sees",
    "likes",
    "finds",
)
# English and other side of the last lines of every archive: some trip readers in the real files,
# some are dropped.
ODD_PAIRS = {
    "carriage_return": ("carriage\rreturn\r", "carriage\rreturn\r"),
    "line_separator": ("line\u2028separator", "line\u2028separator"),
    "next_line": ("next\u0085line", "next\u0085line"),
    "no_break_space": ("no-break\u00a0space", "no-break\u00a0space"),
    "soft_hyphen": ("soft\u00adhyphen", "soft\u00adhyphen"),
    "300_words": (" ".join(["house"] * 300), " ".join(["tree"] * 300)),
    "100_words": (" ".join(["old"] * 100), " ".join(["new"] * 100)),
    "1001_letters": ("s" * 1001, "t" * 1001),
    "20_to_2_words": (" ".join(["red"] * 20), "blue blue"),
    "10_to_5_words": (" ".join(["red"] * 10), " ".join(["blue"] * 5)),
    "nothing_on_one_side": ("stone", ""),
    "nothing": ("", ""),
}


def member_lines(archive: str, member: str, num_lines: int) -> list[str]:
    """Return a member's lines, its own of every archive, member and number."""
    rng = random.Random(f"{archive} {member}")
    name = member.removesuffix(".gz")
    plain = [
        f"{name} {index} {' '.join(rng.choices(_WORDS, k=12))}"
        for index in range(num_lines - len(ODD_PAIRS))
    ]
    return [*plain, *(pair[0 if name.endswith(".en") else 1] for pair in ODD_PAIRS.values())]


def member_bytes(lines: Iterable[str]) -> bytes:
    """Return lines as the bytes of a file."""
    return "".join(f"{line}\n" for line in lines).encode()


def small_archives(
    num_lines_by_archive: Mapping[str, int], corpora: Iterable[CorpusSpec]
) -> dict[str, bytes]:
    """Return the bytes of every file of every joined archive, by file name, holding the members of
    all the corpora.
    """
    members_by_archive: dict[str, dict[str, bytes]] = {}
    formats_by_archive: dict[str, dict[str, str]] = {}
    for corpus in corpora:
        assert isinstance(corpus.source, ArchiveSource)
        for name, archive in corpus.source.joined().items():
            members = members_by_archive.setdefault(name, {})
            for member in archive.member_by_language.values():
                text = member_bytes(member_lines(name, member, num_lines_by_archive[name]))
                members[member] = gzip.compress(text, mtime=0) if member.endswith(".gz") else text
            formats_by_archive[name] = {
                form: packed.name for form, packed in archive.file_by_format.items()
            }
    return {
        file_name: _packed(archive_format, members_by_archive[name])
        for name, name_by_format in formats_by_archive.items()
        for archive_format, file_name in name_by_format.items()
    }


def _packed(archive_format: str, members: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    beside = {f"{name}.annotation": b"beside\n" for name in list(members)[:1]}
    if archive_format == "zip":
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in {**members, **beside}.items():
                archive.writestr(zipfile.ZipInfo(name), content)
        return packed.getvalue()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for folder in sorted({name.rpartition("/")[0] for name in members} - {""}):
            member = tarfile.TarInfo(folder)
            member.type = tarfile.DIRTYPE
            tar.addfile(member)
        for name, content in {**members, **beside}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return (
        gzip.compress(packed.getvalue(), mtime=0) if archive_format == "tgz" else packed.getvalue()
    )


def serve_recipes(served: LoopbackServer, corpora: Iterable[CorpusSpec]) -> None:
    """Serve small archives at every place of the recipes, and their test sets alone below
    `/mirror`.
    """
    corpora = list(corpora)
    contents = small_archives(NUM_LINES_BY_ARCHIVE, corpora)
    for corpus in corpora:
        assert isinstance(corpus.source, ArchiveSource)
        for archive in corpus.source.joined().values():
            for packed in archive.file_by_format.values():
                for place, path in packed.path_by_place.items():
                    served.serve(f"/{place}/{path}", contents[packed.name])
        for testset, texts in TESTSETS[corpus.language_pair].items():
            for language, text in texts.items():
                plain = corpus.source.testset_by_name[testset].plain_by_language[language]
                served.serve(f"/mirror/newstest/{plain.path}", text)


def checksum(content: bytes, like: str) -> str:
    """Return the checksum of bytes by the algorithm of another one."""
    algorithm = like.partition(":")[0]
    return f"{algorithm}:{hashlib.new(algorithm, content, usedforsecurity=False).hexdigest()}"


def small_recipe(base: CorpusSpec, served: LoopbackServer, vocabulary_size: int) -> dict[str, Any]:
    """Return a corpus file `<base>_small` of what `serve_recipes` serves, each public place a
    folder of its name.
    """
    url, num_lines_by_archive = served.url, NUM_LINES_BY_ARCHIVE
    text_by_testset = TESTSETS[base.language_pair]
    content_by_name = {
        path.rpartition("/")[2]: content for path, content in served.content_by_path.items()
    }
    source = base.source
    assert isinstance(source, ArchiveSource)
    archives = {
        name: {
            "num_lines": None if archive.num_lines is None else num_lines_by_archive[name],
            "file_by_format": {
                archive_format: {
                    "num_bytes": len(content_by_name[packed.name]),
                    "checksum": checksum(content_by_name[packed.name], like=packed.checksum),
                }
                for archive_format, packed in archive.file_by_format.items()
            },
        }
        for name, archive in source.joined().items()
    }
    testsets = {
        testset: {
            "num_lines": next(iter(texts.values())).count(b"\n"),
            "plain_by_language": {
                language: {"checksum": checksum(text, "md5:")} for language, text in texts.items()
            },
        }
        for testset, texts in text_by_testset.items()
    }
    return {
        "name": f"{base.name}_small",
        "inherits": base.name,
        "description": f"{base.description}; small archives of its layout",
        "source": {
            "base_url_by_place": {place: f"{url}/{place}" for place in source.base_url_by_place},
            "archive_by_name": archives,
            "testset_by_name": testsets,
        },
        "subword": {"vocabulary_size": vocabulary_size},
    }


def write_recipe(recipe: Mapping[str, Any], config_folder: Path) -> str:
    """Put a recipe and all the shipped corpora into a config folder, and return its name."""
    folder = config_folder / "corpora"
    folder.mkdir(parents=True, exist_ok=True)
    for path in (CONFIG_FOLDER / "corpora").glob("*.yaml"):
        (folder / path.name).write_bytes(path.read_bytes())
    name = str(recipe["name"])
    (folder / f"{name}.yaml").write_text(
        yaml.safe_dump(dict(recipe), sort_keys=False), encoding="utf-8", newline="\n"
    )
    return name

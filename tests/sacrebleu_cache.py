"""Archives of sgm files where sacreBLEU keeps its own: the layout is the published one, the text
any.
"""

import hashlib
import io
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from sacrebleu.dataset import DATASETS


def move_cache(names: Iterable[str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let sacreBLEU and the fetch keep these test sets in a folder."""
    monkeypatch.setenv("SACREBLEU", str(folder))  # sacreBLEU itself has read it already
    for name in names:
        monkeypatch.setattr(DATASETS[name], "_outdir", str(folder / name))
        monkeypatch.setattr(DATASETS[name], "_rawdir", str(folder / name / "raw"))


def put_sgm_archive(
    name: str,
    language_pair: str,
    lines_by_language: Mapping[str, Sequence[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Put a test set's archive where sacreBLEU keeps it, let sacreBLEU expect its MD5, and return
    its path.
    """
    dataset = DATASETS[name]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for member, language in zip(
            dataset.langpairs[language_pair], language_pair.split("-"), strict=True
        ):
            segments = "".join(
                f'<seg id="{number}">{line}</seg>\n'
                for number, line in enumerate(lines_by_language[language], start=1)
            )
            content = f'<srcset setid="newstest2014">\n<doc docid="a">\n{segments}</doc>\n</srcset>\n'.encode()
            entry = tarfile.TarInfo(member)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    path: Path = Path(dataset._rawdir) / dataset._get_tarball_filename(dataset.data[0])
    path.parent.mkdir(parents=True)
    path.write_bytes(packed.getvalue())
    monkeypatch.setattr(dataset, "md5", [hashlib.md5(packed.getvalue()).hexdigest()])
    return path

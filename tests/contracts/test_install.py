"""`make install` against an index on loopback: normally, and when the network or the disk fails.

pip and the environment are real. The packages have real names and a few lines each.
"""

import hashlib
import importlib.util
import io
import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from tests.workflow.loopback_server import LoopbackServer, loopback_server

CHECKOUT = Path(__file__).resolve().parents[2]
SPACE_LIMIT_BYTES = 2 * 2**20
PORTAL = b"<!doctype html><html><title>Log in</title><form>Name and password, please</form></html>"
VERSIONS = {"torch": "2.13.0", "fairseq-fixed": "0.12.3.1"}
CONSTRAINTS = "torch==2.13.0\nfairseq-fixed==0.12.3.1\n"
# A backend for `pip install .` that needs no setuptools: it zips one module. fairseq's wants torch,
# as the real fairseq does.
BACKEND = """\
import os, zipfile
NAME, VERSION, NEEDS = {name!r}, {version!r}, {needs!r}
def build_wheel(folder, config_settings=None, metadata_directory=None):
    if NAME == "fairseq_fixed":
        import torch.version
        assert "READTHEDOCS" in os.environ, "extensions would be compiled"
    info = f"{{NAME}}-{{VERSION}}.dist-info"
    metadata = f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: {{VERSION}}\\n" + NEEDS
    with zipfile.ZipFile(os.path.join(folder, f"{{NAME}}-{{VERSION}}-py3-none-any.whl"), "w") as wheel:
        wheel.writestr(f"{{NAME}}.py", "")
        wheel.writestr(f"{{info}}/METADATA", metadata)
        wheel.writestr(f"{{info}}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{{info}}/RECORD", "")
    return f"{{NAME}}-{{VERSION}}-py3-none-any.whl"
build_editable = build_wheel
"""
PYPROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
# The packages of each file of hashes.
REQUIREMENTS = {
    "build": ["setuptools", "wheel"],
    "torch": ["torch", "filelock"],
    "fairseq": ["fairseq-fixed"],
    "workflow": ["snakemake"],
    "train": ["filelock", "setuptools"],
    "figures": ["altair"],
    "dev": ["pytest", "numpy", "snakemake"],
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("make") is None, reason="no make here"),
]


def wheel(
    name: str, version: str, *, needs: str = "", files: dict[str, str] | None = None
) -> bytes:
    """Return a package of a few files."""
    content, info = io.BytesIO(), f"{name}-{version}.dist-info"
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in (files or {f"{name}.py": ""}).items():
            archive.writestr(path, text)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return content.getvalue()


def torch_wheel(local: str = "") -> bytes:
    """Return a torch with one file larger than the space that a test leaves, and a package that it
    needs.
    """
    version = f"2.13.0{local}"
    files = {
        "torch/__init__.py": "",
        "torch/weight.py": "#" * (SPACE_LIMIT_BYTES + 1000),
        "torch/version.py": "",
    }
    return wheel("torch", version, needs="Requires-Dist: filelock\n", files=files)


def fairseq_archive() -> bytes:
    """Return a source archive, as the index has of fairseq for most Pythons."""
    content, root = io.BytesIO(), "fairseq_fixed-0.12.3.1"
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for path, text in (
            ("PKG-INFO", "Metadata-Version: 2.1\nName: fairseq-fixed\nVersion: 0.12.3.1\n"),
            ("pyproject.toml", PYPROJECT),
            ("backend.py", BACKEND.format(name="fairseq_fixed", version="0.12.3.1", needs="")),
        ):
            entry = tarfile.TarInfo(f"{root}/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()


PACKAGES = {
    "fairseq-fixed/fairseq_fixed-0.12.3.1.tar.gz": fairseq_archive(),
    # Where a wheel fits too, it has extensions; without it all Pythons have the same fairseq.
    "fairseq-fixed/fairseq_fixed-0.12.3.1-py3-none-any.whl": b"with extensions",
    "torch/torch-2.13.0-py3-none-any.whl": torch_wheel(),
} | {
    f"{name}/{name}-1.0-py3-none-any.whl": wheel(name, "1.0")
    for name in ("filelock", "setuptools", "wheel", "snakemake", "numpy", "pytest", "altair")
}


def write_requirements(folder: Path) -> None:
    """Write the files of hashes of these packages."""
    folder.mkdir()
    for file, names in REQUIREMENTS.items():
        text = ""
        for name in names:
            contents = [PACKAGES[path] for path in PACKAGES if path.startswith(f"{name}/")]
            hashes = [f" --hash=sha256:{hashlib.sha256(packed).hexdigest()}" for packed in contents]
            version = VERSIONS.get(name, "1.0")
            text += f"{name}=={version}{''.join(hashes)}\n"
        (folder / f"{file}.txt").write_text(text, encoding="utf-8")


def serve_packages(served: LoopbackServer, content_by_path: dict[str, bytes]) -> None:
    """Serve packages by `name/file`, and each name's page."""
    page_by_name: dict[str, str] = {}
    for path, content in content_by_path.items():
        served.serve(f"/{path}", content)
        name, _, file = path.rpartition("/")
        page_by_name[name] = f'{page_by_name.get(name, "")}<a href="/{path}">{file}</a>'
    for name, page in page_by_name.items():
        served.serve(f"/{name}/", page.encode())


@pytest.fixture
def index() -> Iterator[LoopbackServer]:
    """Run an index with all packages."""
    with loopback_server() as served:
        serve_packages(served, PACKAGES)
        yield served


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty environment, made once. Its Python finds its packages wherever it is copied
    to.
    """
    folder = tmp_path_factory.mktemp("environment") / ".venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    return folder


@pytest.fixture
def checkout(tmp_path: Path, environment: Path) -> Path:
    """Return a folder with what `make install` reads, an empty environment, and a project of one
    module.
    """
    folder = tmp_path / "checkout"
    (folder / "workflow").mkdir(parents=True)
    for name in ("Makefile", "workflow/install.py"):
        shutil.copy2(CHECKOUT / name, folder / name)
    shutil.copytree(environment, folder / ".venv", symlinks=True)
    (folder / ".venv" / "kept").touch()
    (folder / "constraints.txt").write_text(CONSTRAINTS, encoding="utf-8")
    write_requirements(folder / "requirements")
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    needs = "Requires-Dist: unpinned\n"  # only what has a hash is installed: this has none
    backend = BACKEND.format(name="aiayn", version="0.4.0", needs=needs)
    (folder / "backend.py").write_text(backend, encoding="utf-8")
    return folder


def make(
    checkout: Path, index_url: str, *arguments: str, file_limit_bytes: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run make with nothing of this machine's pip configuration."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MAKE", "MFLAGS", "PIP"))
    }
    variables |= {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_INDEX_URL": index_url,
        "PIP_RETRIES": "1",
        "NO_PROXY": "127.0.0.1",
    }
    limit = (file_limit_bytes, file_limit_bytes)
    return subprocess.run(
        ["make", *arguments, f"PYTHON={sys.executable}"],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
        env=variables | {"PIP_CACHE_DIR": str(checkout.parent / "cache")},
        timeout=300,
        preexec_fn=(
            (lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit)) if file_limit_bytes else None
        ),
    )


def installed(checkout: Path) -> dict[str, str]:
    """Return the versions of what is whole in the environment: every file that its list of files
    names.
    """
    script = (
        "from importlib.metadata import distributions\nfor found in distributions():\n    if"
        " found.files and all(file.locate().exists() for file in found.files):"
        " print(found.name, found.version)\n"
    )
    python = checkout / ".venv" / "bin" / "python"
    listed = subprocess.run(
        [python, "-c", script], capture_output=True, text=True, check=True
    ).stdout
    return dict(line.split() for line in listed.splitlines())


def test_torch_comes_first_then_fairseq_without_extensions_then_the_rest(
    checkout: Path, index: LoopbackServer
) -> None:
    demo = make(checkout, index.url, ".venv/installed-demo")
    assert demo.returncode == 0, demo.stderr
    versions = {
        "torch": "2.13.0",
        "fairseq_fixed": "0.12.3.1",
        "aiayn": "0.4.0",
        "filelock": "1.0",
        "snakemake": "1.0",
    }
    assert installed(checkout).items() >= versions.items()
    assert not {"numpy", "pytest"} & set(installed(checkout))
    assert re.search(
        r"torch from .*; for another build: make install TORCH_INDEX_URL=https://", demo.stdout
    )
    done = make(checkout, index.url, "install")
    assert done.returncode == 0, done.stderr
    assert installed(checkout).items() >= {"numpy": "1.0", "pytest": "1.0"}.items()
    assert (checkout / ".venv" / "kept").exists()
    num_requests = len(index.requests)
    assert make(checkout, index.url, "install").returncode == 0
    assert len(index.requests) == num_requests


@pytest.mark.parametrize(("file", "package"), [("workflow", "snakemake"), ("fairseq", "fairseq")])
def test_a_file_with_another_hash_ends_the_installation_in_one_sentence(
    checkout: Path, index: LoopbackServer, file: str, package: str
) -> None:
    # A package that was replaced on its way must not be installed.
    path = checkout / "requirements" / f"{file}.txt"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"sha256:\w+", f"sha256:{'0' * 64}", text), encoding="utf-8")
    done = make(checkout, index.url, "install")
    assert done.returncode != 0
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("make: what was")]
    assert line.startswith(f"make: what was downloaded as {package}")
    assert "has another hash than in requirements/*.txt, so nothing of it was installed" in line
    assert package not in installed(checkout)
    path.write_text(text, encoding="utf-8")
    assert make(checkout, index.url, "install").returncode == 0


def test_after_a_lost_network_the_next_make_starts_over(
    checkout: Path, index: LoopbackServer
) -> None:
    index.faults_by_path["/fairseq-fixed/fairseq_fixed-0.12.3.1.tar.gz"] = ["drop"] * 20
    done = make(checkout, index.url, "install")
    assert done.returncode != 0
    # pip sees an archive that ends early, which has another hash.
    assert "the download broke off" in done.stderr
    index.faults_by_path.clear()
    assert make(checkout, index.url, "install").returncode == 0


def test_a_full_disk_in_the_middle_is_said_and_the_next_make_starts_over(
    checkout: Path, index: LoopbackServer
) -> None:
    """torch's large file ends early. pip would take its remains for an installed torch."""
    done = make(checkout, index.url, "install", file_limit_bytes=SPACE_LIMIT_BYTES)
    assert done.returncode != 0
    assert "File too large" in done.stderr
    done = make(checkout, index.url, "install")
    assert done.returncode == 0, done.stderr
    assert installed(checkout)["torch"] == "2.13.0"
    assert not (checkout / ".venv" / "kept").exists()


def test_what_a_package_says_when_its_build_fails_is_shown(
    checkout: Path, index: LoopbackServer
) -> None:
    backend = (checkout / "backend.py").read_text(encoding="utf-8")
    (checkout / "backend.py").write_text(
        f"raise RuntimeError('too old')\n{backend}", encoding="utf-8"
    )
    done = make(checkout, index.url, "install")
    assert done.returncode != 0
    assert "RuntimeError: too old" in done.stderr
    assert re.search(r"make: .* pip .* failed, see above; .* then run make again", done.stderr)


def test_torch_is_taken_from_the_index_that_is_named_and_what_it_needs_from_pips(
    checkout: Path, index: LoopbackServer
) -> None:
    """The named index has only torch. The same name again changes nothing. Another name does."""
    by_tag = {"cpu": torch_wheel("+cpu"), "cu126": torch_wheel("+cu126")}
    content = {
        f"{tag}/torch/torch-2.13.0%2B{tag}-py3-none-any.whl": packed
        for tag, packed in by_tag.items()
    }
    with loopback_server() as named:
        serve_packages(named, content)
        for tag in ("cu126", "cpu", "cpu"):
            named.requests.clear()
            done = make(checkout, index.url, "install", f"TORCH_INDEX_URL={named.url}/{tag}")
            assert done.returncode == 0, done.stderr
            assert installed(checkout)["torch"] == f"2.13.0+{tag}"
            assert (
                f"torch from {named.url}/{tag}, as TORCH_INDEX_URL says" in done.stdout
                or named.requests == []
            )
        assert named.requests == []
    assert installed(checkout)["filelock"] == "1.0"


@pytest.fixture
def script() -> ModuleType:
    """Return install.py as a module."""
    spec = importlib.util.spec_from_file_location("install", CHECKOUT / "workflow" / "install.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def own_torch_index(
    script: ModuleType, url: str, *, programs: tuple[str, ...] = (), settings: str = ""
) -> Any:
    """Return the index that is chosen on a Linux with these programs, a CPU index at `url` and
    pip's settings.
    """
    with (
        mock.patch.object(script, "CPU_INDEX_URL", url),
        mock.patch.object(script.platform, "system", return_value="Linux"),
        mock.patch.object(script.shutil, "which", lambda name: name if name in programs else None),
        mock.patch.object(script.glob, "glob", return_value=[]),
    ):
        return script.own_torch_index(settings)


@pytest.fixture
def cpu_index(script: ModuleType) -> Iterator[LoopbackServer]:
    """Run an index with a CPU build for this Python and machine, as torch's own names it."""
    tag = f"cp3{sys.version_info.minor}"
    name = f"torch/torch-{script.pinned_version('torch')}%2Bcpu-{tag}-{tag}-manylinux_2_28_{os.uname().machine}.whl"
    with loopback_server() as served:
        served.serve("/torch/", f'<a href="/whl/cpu/{name}#sha256=0">{name}</a>'.encode())
        yield served


def test_torchs_cpu_build_is_taken_unless_a_gpu_slurm_or_an_own_index_is_there(
    script: ModuleType, cpu_index: LoopbackServer
) -> None:
    assert own_torch_index(script, cpu_index.url) == (
        cpu_index.url,
        "because this machine has no NVIDIA GPU",
    )
    settings = ":env:.extra-index-url='https://example.org'\nglobal.find-links='/opt'"
    assert own_torch_index(script, cpu_index.url, settings=settings)[0] == cpu_index.url
    cpu_index.requests.clear()
    for program in ("nvidia-smi", "sbatch"):
        assert own_torch_index(script, cpu_index.url, programs=(program,))[0] == ""
    for settings in (":env:.index-url='https://mirror.example'", "global.no-index='1'"):
        own = own_torch_index(script, cpu_index.url, settings=settings)
        assert own == ("", "as pip's configuration names one")
    assert cpu_index.requests == []
    url, reason = own_torch_index(script, "http://127.0.0.1:9")
    assert (url, "cannot be reached" in reason) == ("", True)
    cpu_index.serve("/torch/", PORTAL)
    assert own_torch_index(script, cpu_index.url) == (
        "",
        f"because {cpu_index.url} has no build for this machine",
    )


@pytest.mark.parametrize(
    ("given_url", "settings", "hashed"),
    [
        ("", "", True),
        ("", ":env:.default-timeout='180'\nglobal.constraint='x'", True),
        ("", "global.index-url='https://mirror.example'", False),
        ("", ":env:.extra-index-url='https://mirror.example'", False),
        ("", "global.find-links='/opt'", False),
        ("", "global.no-index='1'", False),
        ("https://download.pytorch.org/whl/cu126", "", False),
    ],
)
def test_torch_has_its_hash_unless_an_index_was_chosen(
    script: ModuleType, tmp_path: Path, given_url: str, settings: str, hashed: bool
) -> None:
    with (
        mock.patch.object(script, "TORCH_INDEX", tmp_path / "torch-index"),
        mock.patch.object(script, "pip_settings", return_value=settings),
        mock.patch.object(script, "own_torch_index", return_value=("", "as a test says")),
        mock.patch.object(script, "run") as run,
    ):
        script.install_torch(given_url)
    commands = [" ".join(call.args[0]) for call in run.call_args_list]
    assert ["--require-hashes" in command for command in commands] == [hashed] * len(commands)
    assert all("torch" in command for command in commands)


def test_packages_are_compiled_at_once_where_python_may_not_when_it_imports_them(
    script: ModuleType, tmp_path: Path
) -> None:
    """What cannot be compiled, as templates of other versions, is passed over."""
    (tmp_path / "good.py").write_text("a = 1\n", encoding="utf-8")
    (tmp_path / "template.py").write_text("def {{ name }}:\n", encoding="utf-8")
    with mock.patch.object(script, "run") as run:
        script.compile_packages()
    _, flag, code, folder = run.call_args.args[0]
    assert folder == str(script.VENV / "lib")
    subprocess.run([sys.executable, flag, code, str(tmp_path)], check=True)
    assert [path.name.partition(".")[0] for path in tmp_path.glob("__pycache__/*.pyc")] == ["good"]


def test_the_progress_is_that_of_the_newest_download(script: ModuleType, tmp_path: Path) -> None:
    """pip keeps a finished download next to the file that it is writing."""
    line = "  Downloading scipy-1.17.0-cp311-manylinux_x86_64.whl (12.4 MB)\n"
    assert script.describe(line, tmp_path, 2.0).endswith("(2 s)")
    for number, (name, num_bytes) in enumerate([("a.whl", 35_000_000), ("b.whl", 3_000_000)]):
        path = tmp_path / "pip-unpack" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"0" * num_bytes)
        os.utime(path, (number, number))
    # 38 MB in 19 s are 2 MB a second, and 9.4 MB are left.
    assert script.describe(line, tmp_path, 19.0).endswith("(19 s): 3 of 12.4 MB, 5 s left")

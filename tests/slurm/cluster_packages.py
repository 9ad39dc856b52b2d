"""The Debian packages of the test cluster: which are missing, and their installation by apt-get."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.slurm.cluster_processes import ClusterUnavailableError
from tests.support.debian import InstallationError, install_packages

PACKAGE_BY_COMMAND = {
    "munged": "munge",
    "mariadbd": "mariadb-server-core",
    "mariadb-install-db": "mariadb-server-core",
    "my_print_defaults": "mariadb-client-core",  # mariadb-install-db calls it
    "slurmdbd": "slurmdbd",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
}
# slurmdbd merely recommends it, and does not start without it.
DATABASE_PLUGIN, DATABASE_PLUGIN_PACKAGE = "accounting_storage_mysql.so", "slurm-wlm-mysql-plugin"
POLICY_PATH = Path("/usr/sbin/policy-rc.d")
NO_SERVICE_STARTS = (
    "#!/bin/sh\nexit 101\n"  # the answer `no` to a package that would start its own service
)


def missing_packages() -> list[str]:
    """Return the packages that are not there yet."""
    search_path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    missing = [
        package
        for command, package in PACKAGE_BY_COMMAND.items()
        if not shutil.which(command, path=search_path)
    ]
    if not list(Path("/usr/lib").glob(f"*/slurm-wlm/{DATABASE_PLUGIN}")):
        missing.append(DATABASE_PLUGIN_PACKAGE)
    return sorted(set(missing))


def require_packages() -> None:
    """Install what is missing.

    Raises:
        ClusterUnavailableError: if that cannot be, with the reason.
    """
    if os.geteuid() != 0:
        raise ClusterUnavailableError(
            "no test cluster: slurmd needs root to start jobs; run as root, or in a container"
        )
    missing = missing_packages()
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise ClusterUnavailableError(
            f"no test cluster: no {', '.join(missing)}, and no apt-get to install them by"
        )
    with _services_kept_from_starting():
        try:
            install_packages(*missing)
        except InstallationError as error:
            raise ClusterUnavailableError(f"no test cluster: {error}") from error


@contextlib.contextmanager
def _services_kept_from_starting() -> Iterator[None]:
    """Keep packages from starting a munge or a Slurm of their own."""
    if POLICY_PATH.exists():
        yield
        return
    POLICY_PATH.write_text(NO_SERVICE_STARTS, encoding="utf-8")
    POLICY_PATH.chmod(0o755)
    try:
        yield
    finally:
        POLICY_PATH.unlink(missing_ok=True)

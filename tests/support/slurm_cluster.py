"""One Slurm for all tests that ask for it. Where there can be none they are skipped, with the reason."""

import os
from collections.abc import Iterator

import pytest

from tests.slurm.cluster import Cluster, own_cluster
from tests.slurm.cluster_processes import ClusterUnavailableError

REQUIRED = (
    "AIAYN_REQUIRE_CLUSTER"  # set where a skipped test would be a hole: there it fails instead
)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Return a running cluster."""
    lasting = own_cluster()
    try:
        running = lasting.__enter__()
    except ClusterUnavailableError as error:
        if os.environ.get(REQUIRED):
            raise
        pytest.skip(str(error))
    yield running
    lasting.__exit__(None, None, None)


@pytest.fixture
def on_cluster(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return the cluster, which this test's commands find."""
    for name in [name for name in os.environ if name.startswith(("SLURM_", "SBATCH_"))]:
        monkeypatch.delenv(name)
    for name, value in cluster.layout.environment().items():
        monkeypatch.setenv(name, value)
    return cluster

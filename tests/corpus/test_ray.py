"""Ray: the same shards on workers of a cluster give the same tables."""

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.own_studies import lengths
from tl_ffblock.corpus.runs import run_corpus
from tl_ffblock.errors import FFBlockError
from tl_ffblock.experiments import Config, run_studies

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.xdist_group("ray"),  # one cluster at a time
]
ray = pytest.importorskip("ray", reason="ray is not installed")

ROOT = Path(__file__).resolve().parents[2]
Tables = Callable[[Path], dict[str, bytes]]


@pytest.fixture(autouse=True)
def _package_for_workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Workers import the package from the source folder."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield
    ray.shutdown()


def test_local_equals_ray(config_of: Callable[..., Config], tables_of: Tables) -> None:
    """Byte for byte, with two workers on one machine."""
    names = "contextualization,amplification,bypass,outliers,heads"
    local = run_studies(names, config_of(out="local", limit=14, mask_fraction=0.1))
    remote = run_studies(names, config_of(out="ray", engine="ray", workers=2, limit=14, mask_fraction=0.1))
    assert local.status == remote.status == 0
    assert tables_of(local.folder) == tables_of(remote.folder)


def test_two_nodes(config_of: Callable[..., Config], tables_of: Tables) -> None:
    """A cluster of two nodes with one CPU each: one worker a node, the same tables. Unasked, it is left alone."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    try:
        remote = run_studies("bypass", config_of(out="ray", engine="ray", workers=2, ray_address=cluster.address))
        assert remote.status == 0
        assert tables_of(remote.folder) == tables_of(run_studies("bypass", config_of(out="local")).folder)
        ray.shutdown()
        assert run_studies("bypass", config_of(out="own", engine="ray", workers=1)).status == 0
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_a_worker_without_the_model_is_named(config_of: Callable[..., Config], loaded: Callable[[str], Any]) -> None:
    """What goes wrong on a worker reaches the user in one line."""
    config = dataclasses.replace(config_of(out="ray", engine="ray", workers=1), model="/no/such/model")
    with pytest.raises(FFBlockError, match="there is no folder '/no/such/model'"):
        run_studies("bypass", config, model=loaded("bert"))


def kill_a_worker_at_the_first_shard(folder: Path, killed: list[int]) -> None:
    """When the first shard has come back, both workers have others."""
    while not any(folder.glob("shards/shard-*")):
        time.sleep(0.001)
    below = psutil.Process(os.getpid()).children(recursive=True)
    worker = next(process for process in below if "RemoteWorker" in " ".join(process.cmdline()))
    worker.kill()
    killed.append(worker.pid)


def test_a_killed_worker_changes_nothing(config_of: Callable[..., Config], tables_of: Tables) -> None:
    """A worker process killed with shards in its hands is started again and its shards done again."""
    names, killed = "contextualization,amplification", list[int]()
    local = run_studies(names, config_of(out="local", shard_size=1))
    config = config_of(out="ray", engine="ray", workers=2, shard_size=1)
    thread = threading.Thread(target=kill_a_worker_at_the_first_shard, args=(config.folder, killed), daemon=True)
    thread.start()
    remote = run_studies(names, config)
    thread.join(timeout=10)
    assert killed and remote.status == 0
    assert tables_of(remote.folder) == tables_of(local.folder)


def test_workers_build_studies_of_a_user(config_of: Callable[..., Config], tables_of: Tables) -> None:
    """A study that the library does not know travels by the name of its class, with its options."""
    local = run_corpus(config_of(out="local", limit=5), [lengths(add=3)])
    remote = run_corpus(config_of(out="ray", engine="ray", workers=1, limit=5), [lengths(add=3)])
    assert remote.status == 0
    assert tables_of(remote.folder) == tables_of(local.folder)

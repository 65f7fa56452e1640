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

from tests.corpora import stored_tables
from tests.own_studies import lengths
from tl_ffblock.errors import FFBlockError
from tl_ffblock.experiments import Config, run_studies, study
from tl_ffblock.experiments.kobayashi.replication import replicate

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.xdist_group("ray"),  # one cluster at a time
]
ray = pytest.importorskip("ray", reason="ray is not installed")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _package_for_workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Workers import the package from the source folder."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield
    ray.shutdown()


def kill_a_worker_at_the_first_shard(folder: Path, killed: list[int]) -> None:
    """When the first shard has come back, both workers have others."""
    while not any(folder.glob("shards/shard-*")):
        time.sleep(0.001)
    below = psutil.Process(os.getpid()).children(recursive=True)
    worker = next(process for process in below if "RemoteWorker" in " ".join(process.cmdline()))
    worker.kill()
    killed.append(worker.pid)


def test_two_nodes_and_a_killed_worker_change_nothing(config_of: Callable[..., Config]) -> None:
    """On a cluster of two nodes, one worker each, one of which is killed with shards in its hands: the tables of a local run.

    A study that the library does not know travels by the name of its class, with its options.
    """
    from ray.cluster_utils import Cluster

    specs, killed = [study("contextualization"), study("amplification"), lengths(add=3)], list[int]()
    local = run_studies(specs, config_of(out="local", limit=28, shard_size=2, mask_fraction=0.1))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        of_ray = dict(engine="ray", workers=2, ray_address=cluster.address)
        config = config_of(out="ray", limit=28, shard_size=2, mask_fraction=0.1, **of_ray)
        thread = threading.Thread(target=kill_a_worker_at_the_first_shard, args=(config.folder, killed), daemon=True)
        thread.start()
        remote = run_studies(specs, config)
        thread.join(timeout=10)
        assert killed and local.status == remote.status == 0
        assert stored_tables(remote.folder) == stored_tables(local.folder)
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_a_worker_without_the_model_is_named(config_of: Callable[..., Config], loaded: Callable[[str], Any]) -> None:
    """Without an address a cluster of its own is started; what goes wrong on a worker reaches the user in one line."""
    config = dataclasses.replace(config_of(out="ray", engine="ray", workers=1), model="/no/such/model")
    with pytest.raises(FFBlockError, match="there is no folder '/no/such/model'"):
        run_studies("bypass", config, model=loaded("bert"))
    assert not ray.is_initialized()


def test_a_replication_on_workers(config_of: Callable[..., Config], tmp_path: Path) -> None:
    """Every model and corpus is a run on the cluster, with the tables of a run in this process."""
    config = config_of(family="bert", limit=6)
    settings: dict[str, Any] = dict(
        models=[config.model], corpora={"sst2": config.data}, studies="bypass", limit=6, examples=0
    )
    local, on_ray = (replicate(tmp_path / engine, engine=engine, workers=1, **settings) for engine in ("local", "ray"))
    assert local.status == on_ray.status == 0
    assert local.comparison.equals(on_ray.comparison) and len(local.comparison)
    (name,) = local.runs
    assert stored_tables(local.runs[name].folder) == stored_tables(on_ray.runs[name].folder)

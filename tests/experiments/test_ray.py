"""Ray: the same shards on workers of a cluster give the same tables."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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


def run(config: Any) -> Any:
    from tl_ffblock.experiments import run as run_it

    return run_it(config)


def test_local_equals_ray(config_of: Callable[..., Any], tables_of: Tables) -> None:
    """Byte for byte, with two workers on one machine."""
    names = "contextualization,amplification,norms,outliers"
    local = run(config_of(names, out="local", limit=14))
    remote = run(config_of(names, out="ray", engine="ray", workers=2, limit=14))
    assert local.status == remote.status == 0
    assert tables_of(local.folder) == tables_of(remote.folder)


def test_two_nodes(config_of: Callable[..., Any], tables_of: Tables) -> None:
    """A cluster of two nodes with one CPU each: one worker a node, the same tables. Unasked, it is left alone."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    try:
        remote = run(config_of("norms", out="ray", engine="ray", workers=2, ray_address=cluster.address))
        assert remote.status == 0
        assert tables_of(remote.folder) == tables_of(run(config_of("norms", out="local")).folder)
        ray.shutdown()
        assert run(config_of("norms", out="own", engine="ray", workers=1)).status == 0
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_a_worker_without_the_model_is_named(config_of: Callable[..., Any], loaded: Callable[[str], Any]) -> None:
    """What goes wrong on a worker reaches the user in one line."""
    import dataclasses

    from tl_ffblock.errors import FFBlockError
    from tl_ffblock.experiments import run as run_it

    config = dataclasses.replace(config_of("norms", out="ray", engine="ray", workers=1), model="/no/such/model")
    with pytest.raises(FFBlockError, match="there is no folder '/no/such/model'"):
        run_it(config, model=loaded("bert"))


def test_a_killed_worker_changes_nothing(
    config_of: Callable[..., Any], tables_of: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker process killed with shards in its hands is started again and its shards done again."""
    import psutil

    from tl_ffblock.corpus.running.store import Store

    killed: list[int] = []
    write = Store.write

    def kill_and_write(self: Any, *shard: Any) -> None:
        """With the first shard that comes back, when both workers have others."""
        if not killed:
            below = psutil.Process(os.getpid()).children(recursive=True)
            worker = next(process for process in below if "RemoteWorker" in " ".join(process.cmdline()))
            worker.kill()
            killed.append(worker.pid)
        write(self, *shard)

    names = "contextualization,amplification"
    local = run(config_of(names, out="local", shard_size=1))
    monkeypatch.setattr(Store, "write", kill_and_write)
    remote = run(config_of(names, out="ray", engine="ray", workers=2, shard_size=1))
    assert killed and remote.status == 0
    assert tables_of(remote.folder) == tables_of(local.folder)

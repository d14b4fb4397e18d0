"""The Ray engine on a real, local cluster: the same certificates, whoever dies on the way."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import holdfast as hf
from holdfast.cli.app import run as command
from holdfast.errors import UnsteadyModel
from holdfast.runs.certified import CertifiedRun
from holdfast.sampling.ray import _check_reachable
from networks import Turned, images, small_net

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

SIGMA = 0.2
EMBEDDED = ["--model", "fashion-mnist", "--data", "fashion-mnist", "--sigma", "0.25"]


class Deadly(nn.Module):
    """Kills the worker that runs it, once for each file in a folder; never the process that made it."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.net = small_net()
        self.folder = str(folder)
        self.maker = os.getpid()

    def forward(self, x: Tensor) -> Tensor:
        """Dies, or answers."""
        if os.getpid() != self.maker and (left := sorted(Path(self.folder).iterdir())):
            if left[0].name != "forever":
                left[0].unlink(missing_ok=True)  # the other worker may have been faster
            os.kill(os.getpid(), signal.SIGKILL)
        answer: Tensor = self.net(x)
        return answer


class Unsure(nn.Module):
    """Answers NaN to full batches, and well to the few rows it is tried on."""

    def forward(self, x: Tensor) -> Tensor:
        """Two classes."""
        sums = x.flatten(1).sum(1)
        return torch.stack((sums, -sums), 1) * (1.0 if len(x) < 64 else float("nan"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[hf.RayCluster]:
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    with hf.RayCluster(workers=2, cores_per_worker=1) as found:
        yield found
    assert not ray.is_initialized()


def test_many_inputs_give_the_certificates_of_the_local_engine_bit_for_bit(cluster: hf.RayCluster) -> None:
    data, net = images(70), small_net()
    local = hf.SmoothedClassifier(net, SIGMA, engine=hf.Local()).certify_many(data, n=500, n0=30, seed=3)
    assert hf.SmoothedClassifier(net, SIGMA, engine=cluster).certify_many(data, n=500, n0=30, seed=3) == local


def test_one_hard_input_is_cut_into_spans_and_gives_the_same(cluster: hf.RayCluster) -> None:
    x, net = images(1)[0], small_net()
    local, spread = hf.SmoothedClassifier(net, SIGMA), hf.SmoothedClassifier(net, SIGMA, engine=cluster)
    assert spread.certify(x, n=40_500, seed=3) == local.certify(x, n=40_500, seed=3)
    assert spread.certify_classes(x, n=7_000, seed=3).counts == local.certify_classes(x, n=7_000, seed=3).counts
    question = {"at_least": 0.3, "radius": 0.1, "seed": 4}
    assert spread.decide_many(images(9), **question) == local.decide_many(images(9), **question)  # type: ignore[arg-type]
    wanted = {"at_least": 0.3, "n_max": 20_000, "seed": 4}
    assert spread.find_radius(x, **wanted) == local.find_radius(x, **wanted)  # type: ignore[arg-type]


def test_lost_workers_are_replaced_and_their_work_is_done_again(cluster: hf.RayCluster, tmp_path: Path) -> None:
    for k in range(3):
        (tmp_path / f"death-{k}").touch()
    data = images(20)
    found = hf.SmoothedClassifier(Deadly(tmp_path), SIGMA, engine=cluster).certify_many(data, n=500, n0=30, seed=3)
    assert not list(tmp_path.iterdir()), "no worker was killed"
    expected = hf.SmoothedClassifier(Deadly(tmp_path), SIGMA).certify_many(data, n=500, n0=30, seed=3)
    assert found == expected


def test_a_model_that_kills_every_worker_is_given_up_with_a_reason(
    cluster: hf.RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "forever").touch()
    monkeypatch.setattr("holdfast.sampling.ray._RETRIES", 2)
    with pytest.raises(hf.ClusterError, match="a job lost its worker 3 times"):
        hf.SmoothedClassifier(Deadly(tmp_path), SIGMA, engine=cluster).certify(images(1)[0], n=500)


def test_an_error_of_the_model_comes_back_as_itself_and_the_cluster_stays_usable(cluster: hf.RayCluster) -> None:
    x = images(1)[0]
    with pytest.raises(hf.ModelError, match=r"^the model Unsure cannot be certified") as caught:
        hf.SmoothedClassifier(Unsure(), SIGMA, engine=cluster).certify(x, n=500)
    assert type(caught.value) is UnsteadyModel
    again = hf.SmoothedClassifier(small_net(), SIGMA, engine=cluster).certify(x, n=500, seed=1)
    assert again == hf.SmoothedClassifier(small_net(), SIGMA).certify(x, n=500, seed=1)


def test_two_streams_of_equal_models_at_once_are_both_right(cluster: hf.RayCluster) -> None:
    data = images(40)

    def streams(engine: hf.Engine) -> list[Iterator[hf.Certificate]]:
        pair = [hf.SmoothedClassifier(small_net(), sigma, engine=engine) for sigma in (SIGMA, 2 * SIGMA)]
        return [each.stream(data, None, hf.Settings(n=300), seed=1) for each in pair]

    first, second = streams(cluster)
    found = [(next(first), next(second)) for _ in data]
    assert found == list(zip(*streams(hf.Local()), strict=True))


def test_a_stream_that_another_model_overtook_says_so_instead_of_ending_early(cluster: hf.RayCluster) -> None:
    first = hf.SmoothedClassifier(small_net(), SIGMA, engine=cluster).stream(images(200), None, hf.Settings(n=500))
    next(first)
    hf.SmoothedClassifier(small_net(seed=1), SIGMA, engine=cluster).certify(images(1)[0], n=100)
    with pytest.raises(hf.ClusterError, match="asked about another model before this was finished"):
        list(first)


def test_weights_changed_in_place_reach_the_workers(cluster: hf.RayCluster) -> None:
    net, x = small_net(), images(1)[0]
    spread = hf.SmoothedClassifier(net, SIGMA, engine=cluster)
    before = spread.certify(x, n=500, seed=1)
    with torch.no_grad():
        next(net.parameters()).mul_(-1)
    after = spread.certify(x, n=500, seed=1)
    assert after == hf.SmoothedClassifier(net, SIGMA).certify(x, n=500, seed=1)
    assert after != before


def test_a_class_that_was_changed_here_alone_is_refused(
    cluster: hf.RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    net, x = Turned(small_net()), images(1)[0]
    spread = hf.SmoothedClassifier(net, SIGMA, engine=cluster)
    before = spread.certify(x, n=500, seed=1)
    monkeypatch.setattr(Turned, "forward", lambda self, rows: self.net(rows))
    with pytest.raises(hf.ClusterError, match="Turned answers otherwise on a worker than here"):
        spread.certify(x, n=500, seed=1)
    monkeypatch.undo()
    assert spread.certify(x, n=500, seed=1) == before


def test_a_class_that_was_changed_a_little_is_refused_at_a_low_precision_too(
    cluster: hf.RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    spread = hf.SmoothedClassifier(Turned(small_net()), SIGMA, engine=cluster, precision="bfloat16")
    monkeypatch.setattr(Turned, "forward", lambda self, rows: 1.25 * self.net(rows).flip(1))
    with pytest.raises(hf.ClusterError, match="Turned answers otherwise on a worker than here"):
        spread.certify(images(1)[0], n=500, seed=1)


def test_resources_that_are_not_there_are_refused_rather_than_waited_for(
    cluster: hf.RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = images(1)[0]
    hf.SmoothedClassifier(small_net(), SIGMA, engine=cluster).certify(x, n=100)  # its workers have two cores
    monkeypatch.setattr("holdfast.sampling.ray._SETTLE_S", 0.0)
    cores = int(ray.cluster_resources()["CPU"])
    many = hf.RayCluster(workers=cores + 1)
    with pytest.raises(hf.ClusterError, match=rf"{cores + 1} workers of 1 CPU core each .* room for {cores}; ask for"):
        hf.SmoothedClassifier(small_net(), SIGMA, engine=many).certify(x, n=100)
    with pytest.raises(hf.ClusterError, match="ask for 1, or for fewer cores each"):
        hf.SmoothedClassifier(small_net(), SIGMA, engine=hf.RayCluster(cores_per_worker=cores + 1)).certify(x, n=100)
    with pytest.raises(hf.ClusterError, match="are free; ask for fewer workers"):
        hf.SmoothedClassifier(small_net(), SIGMA, engine=hf.RayCluster(workers=cores)).certify(x, n=100)
    assert ray.is_initialized(), "a cluster that was not started for them is left running"


def test_a_record_of_a_cluster_that_is_gone_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("127.0.0.1:1")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(hf.ClusterError, match=r"nobody answers at 127\.0\.0\.1:1"):
        _check_reachable("auto")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:2")
    with pytest.raises(hf.ClusterError, match=r"nobody answers at 127\.0\.0\.1:2"):
        _check_reachable("auto")


def test_ray_that_is_not_installed_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(hf.ClusterError, match=r"pip install 'holdfast-certify\[ray\]'"):
        hf.SmoothedClassifier(small_net(), SIGMA, engine=hf.RayCluster()).certify(images(1)[0], n=100)


def test_the_local_engine_never_imports_ray() -> None:
    code = (
        "import sys, numpy, torch, holdfast as hf\n"
        "net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))\n"
        "hf.SmoothedClassifier(net, 0.5).certify(numpy.zeros((4,), dtype='float32'), n=100)\n"
        "hf.RayCluster(workers=2)\n"
        "assert 'ray' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_model_that_cannot_be_sent_is_refused_by_name(cluster: hf.RayCluster) -> None:
    net = small_net()
    net.lock = threading.Lock()  # type: ignore[assignment]
    with pytest.raises(hf.ModelError, match="cannot be sent to workers"):
        hf.SmoothedClassifier(net, SIGMA, engine=cluster).certify(images(1)[0], n=100)


def test_options_of_a_cluster_are_refused_without_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--workers", "2"], ["--cores-per-worker", "2"], ["--address", "auto"]):
        assert command(["certify", *EMBEDDED, "--out", str(tmp_path / "a"), *option]) == hf.InvalidArgument.exit_code
        assert f"{option[0]} is about a cluster" in " ".join(capsys.readouterr().err.split())
    with pytest.raises(hf.InvalidArgument, match="engine must be Local"):
        hf.SmoothedClassifier(small_net(), SIGMA, engine="ray")  # type: ignore[arg-type]


def test_a_driver_killed_outright_goes_on_and_ends_with_the_local_results(tmp_path: Path) -> None:
    out = tmp_path / "a"
    code = "import holdfast.runs.writer as w; w._SECONDS = 0.0; from holdfast.cli.app import main; main()"
    options = ["--n", "300", "--n0", "10", "--max", "100"]
    arguments = ["certify", *EMBEDDED, "--out", str(out), *options]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments, "--engine", "ray", "--workers", "1"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    began = time.monotonic()
    while not list(out.glob("certificates/part-*.parquet")) and time.monotonic() - began < 120:
        time.sleep(0.01)
    process.kill()
    assert "Traceback" not in process.communicate()[1]
    killed = hf.Run.open(out)
    assert 0 < len(killed) < 100
    assert command(arguments) == 0
    seed = killed.config["provenance"]["seed"]
    assert command(["certify", *EMBEDDED, "--out", str(tmp_path / "b"), *options, "--seed", seed]) == 0
    first, second = hf.Run.open(out), hf.Run.open(tmp_path / "b")
    assert isinstance(first, CertifiedRun)
    assert isinstance(second, CertifiedRun)
    assert [entry.certificate for entry in first] == [entry.certificate for entry in second]
    assert np.array_equal(
        first.columns(["label_radius"])["label_radius"], second.columns(["label_radius"])["label_radius"]
    )

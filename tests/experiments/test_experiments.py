"""The paper's experiments: drawn end to end from small made-up runs, and their formulas against independent ones."""

import csv
import itertools
import json
import shlex
import shutil
import sys
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest
import torch
import typer
from numpy.typing import NDArray
from scipy.stats import norm, spearmanr

import holdfast as hf
from evidence import evidence_of
from experiments import reproduce
from experiments.imagenet import figures as imagenet
from experiments.paper import figures, human, softmax
from experiments.paper.accuracy import Counts, accuracy_figure
from experiments.paper.agreement import agreement, spearman
from experiments.paper.baseline import best_possible, limit
from experiments.paper.confidence import SCORE as SCORE_AT_INPUT
from experiments.paper.confidence import SOFTMAX, Confidence, answered, confidences, rank_correlations
from experiments.paper.evaluation import NAIVE, PAPER, RADII, Answer, Evaluation
from experiments.paper.pictures import IMAGENET, CutOffs, choose, largest_radius
from experiments.paper.published import IMAGENET_MARGIN, LABEL, SCORE
from experiments.paper.reproduce import NAMES
from experiments.paper.softmax import PlainSoftmax, plain_softmax
from experiments.paper.tables import write_tables
from experiments.paper.worst_case import STEPS, WorstCase, naive_of
from experiments.steps import Step, follow
from experiments.training.reproduce import STUDIES
from holdfast.cli.app import app
from holdfast.cli.app import run as holdfast
from holdfast.report.accuracy import Question
from holdfast.report.figures import accuracy_figure as report_accuracy
from holdfast.runs.folder import RunFolder
from holdfast.runs.imported import import_log
from holdfast.runs.store import Entry, write_part
from holdfast.zoo.pretrained import load_embedded_model
from networks import images, small_net

Floats = NDArray[np.float64]
INPUTS, N = 24, 500


LABELS = np.repeat([(k + (k % 5 == 4)) % 10 for k in range(INPUTS)], 20)


def made_up_run(path: Path, sigma: float, *, trained: str | None = None) -> Path:
    """Scores between hopeless and certain, one in five predicted wrongly; ``trained`` are options of ``holdfast train``."""
    rng = np.random.default_rng(int(100 * sigma))
    provenance = hf.Provenance(1, 0, "none", "none", "cpu", "float32", "0", seconds=0.0)
    entries = []
    for k in range(INPUTS):
        score = norm.cdf(rng.normal(0.25 * k - 1.5, 0.7, N))
        margin = np.clip(2 * score - 1 + 0.05, -1, 1)
        evidence = evidence_of(
            N,
            int((margin > 0).sum()),
            hf.ScoreSamples(score, sigma=sigma).histogram(),
            hf.ScoreSamples(margin, support=(-1.0, 1.0), sigma=sigma).histogram(),
        )
        claims = ("label", "score", "margin")
        certificate = hf.Certificate(k % 10, 50, 0.001, claims, "lower", hf.CDF(), evidence, provenance)
        entries.append(Entry(20 * k, int(LABELS[20 * k]), certificate))
    config = {
        "kind": "certified",
        "status": "complete",
        "data": "made-up",
        "inputs": INPUTS,
        "label_names": [],
        "sigma": sigma,
        "n": N,
        "n0": 50,
        "alpha": 0.001,
        "claims": ["label", "score", "margin"],
        "sides": "lower",
        "method": "cdf-berk-jones",
        "provenance": provenance.to_dict(),
        "model": "net.safetensors",
        "weights": {} if trained is None else {"command": f"holdfast train --epochs 45 {trained} --compile"},
    }
    write_part(RunFolder.create(path, config), 0, entries)
    rows = rng.dirichlet(np.full(10, 0.2), INPUTS).astype(np.float32)
    PlainSoftmax(20 * np.arange(INPUTS), rows).write(path / "softmax.npz")
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("runs")
    return [made_up_run(folder / f"cifar10-sigma{sigma:.2f}", sigma) for sigma in (0.25, 0.5)]


@pytest.fixture(scope="module")
def drawn(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (20 * INPUTS, 3, 32, 32), dtype=np.uint8)
    np.savez(folder / "cifar10.npz", test_images=pictures, test_labels=LABELS)
    np.savez(folder / "other.npz", test_images=pictures, test_labels=(LABELS + 1) % 10)
    arguments = ["--runs", *map(str, runs), "--out", str(folder / "results"), "--data"]
    assert figures.main([*arguments, str(folder / "other.npz")]) == hf.DatasetError.exit_code
    assert not (folder / "results").exists()
    assert figures.main([*arguments, str(folder / "cifar10.npz")]) == 0
    return folder / "results"


def test_every_promised_file_is_written_and_small(drawn: Path) -> None:
    pictures = {
        *("certified_accuracy_score.png", "certified_accuracy_margin.png", "certified_accuracy_label.png"),
        *("overview.png", "best_baseline.png", "score_against_radius.png", "worst_case.png", "margin.png"),
        *("pictures_cifar10-sigma0.25.png", "pictures_cifar10-sigma0.50.png"),
    }
    numbers = {
        *(
            "certified_accuracy.csv",
            "score_against_radius.csv",
            "score_against_radius.json",
            "worst_case.json",
            "tables.md",
        ),
        *("pictures_cifar10-sigma0.25.json", "pictures_cifar10-sigma0.50.json"),
    }
    vectors = {name.replace(".png", kind) for name in pictures for kind in (".pdf", ".svg")}
    assert {path.name for path in drawn.iterdir()} == pictures | vectors | numbers
    for name in pictures:
        content = (drawn / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert 5_000 < len(content) < 250_000 if "pictures" in name else 5_000 < len(content) < 150_000


def test_the_numbers_behind_the_figures_are_counts_of_certificates_at_the_papers_alpha(
    drawn: Path, runs: list[Path]
) -> None:
    with (drawn / "certified_accuracy.csv").open() as file:
        rows = list(csv.DictReader(file))
    methods = {
        "holdfast": hf.CDF(),
        "cdf_dkw": hf.CDF(hf.DKW()),
        "naive_hoeffding": hf.Naive(),
    }
    opened = {0.25: Evaluation.open(runs[0]), 0.5: Evaluation.open(runs[1])}
    picked = [row for row in rows if row["measure"] != "label"][::97]
    assert len(picked) > 8
    for row in picked:
        for key, method in methods.items():
            counted = 0
            for entry in opened[float(row["sigma"])].entries:
                alone = entry.certificate.recompute(alpha=0.001, claims=(row["measure"],), method=method)
                lower = alone.curves[row["measure"]].lower(float(row["radius"]))
                counted += alone.predicted == entry.label and lower > float(row["threshold"])
            assert int(row[key]) == counted
    for row in [row for row in rows if row["measure"] == "label"][::30]:
        counted = 0
        for entry in opened[float(row["sigma"])].entries:
            label = entry.certificate.recompute(alpha=0.001, claims=("label",)).label
            counted += (
                label.certified and entry.certificate.predicted == entry.label and label.radius >= float(row["radius"])
            )
        assert int(row["votes"]) == counted


def test_the_tables_have_our_numbers_beside_the_published_ones(drawn: Path) -> None:
    text = (drawn / "tables.md").read_text()
    assert "alone at alpha = 0.001" in text
    assert (
        "| score > 0.5 | published | the paper's CDF bound (DKW) | 0.708 | 0.542 | 0.336 | 0.000 | 0.000 | 0.000 |"
        in text
    )
    assert "| label | published | votes (Clopper-Pearson) | 0.652 | 0.546 | 0.414 | 0.320 | 0.234 | 0.152 |" in text
    with (drawn / "certified_accuracy.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if (row["sigma"], row["measure"]) == ("0.5", "margin")]
    counts = [
        int(row["holdfast"])
        for radius in RADII
        for row in rows
        if (float(row["threshold"]), float(row["radius"])) == (0.3, radius)
    ]
    shares = " | ".join(f"0.{1000 * count // INPUTS:03d}" for count in counts)
    assert (
        f"| margin > 0.3 | net | Holdfast's default (CDF, Berk-Jones) | {shares} |" in text.split("## sigma = 0.5")[1]
    )
    assert counts[0] > counts[-1]


def test_two_networks_of_one_sigma_stay_apart_and_the_papers_kind_comes_first(tmp_path: Path) -> None:
    ours = made_up_run(tmp_path / "cifar10-sigma0.25", 0.25, trained="--objective certified --copies 4")
    plain = made_up_run(tmp_path / "cifar10-plain-sigma0.25", 0.25, trained="--objective plain")
    large = made_up_run(tmp_path / "cifar10-sigma0.50", 0.5, trained="--sharpness 0.5")
    wrong = Evaluation.open(plain)
    object.__setattr__(wrong, "right", np.zeros(INPUTS, dtype=bool))
    counts = Counts([Evaluation.open(large), Evaluation.open(ours), wrong])
    assert [run.name for run in counts.runs] == ["cifar10-plain-sigma0.25", "cifar10-sigma0.25", "cifar10-sigma0.50"]
    assert [run.plain for run in counts.runs] == [True, False, False]
    networks = ["plain training", "training with certified, copies 4", "training with sharpness 0.5"]
    assert [run.network for run in counts.runs] == networks
    assert [int(counts.labels(run).sum()) > 0 for run in counts.runs] == [False, True, True]
    assert [int(counts.of(run, "score", PAPER).sum()) > 0 for run in counts.runs] == [False, True, True]

    (page,) = write_tables(counts, tmp_path)
    rows = [line.split(" | ")[1] for line in page.read_text().splitlines() if " | " in line]
    assert set(rows) == {"network", "published", *networks}
    assert [rows.index(network) for network in networks] == sorted(rows.index(network) for network in networks)
    titles = [axes.get_title().split("\n") for axes in accuracy_figure(counts, "score").axes]
    heads = [head for head, _ in titles if head]
    assert [network in head for network, head in zip(networks, heads, strict=True)] == [True] * 3
    assert [claim for _, claim in titles] == 3 * ["score > 0.5", "score > 0.7", "score > 0.9"]


@pytest.mark.parametrize(
    ("notes", "network", "plain"),
    [
        ({"objective": "Plain(copies=1)"}, "plain training", True),
        ({"objective": "Plain(copies=1)", "command": "holdfast train --sigma 0.25"}, "plain training", True),
        ({"objective": "Certified(copies=4)"}, "training with Certified(copies=4)", False),
        ({"command": "holdfast train --objective plain --temperature auto"}, "training with temperature auto", False),
        ({"source": "a package"}, "net", False),
    ],
)
def test_a_network_is_called_by_what_its_weights_say_of_its_training(
    runs: list[Path], tmp_path: Path, notes: dict[str, str], network: str, plain: bool
) -> None:
    shutil.copytree(runs[0], tmp_path / "run")
    config = json.loads((tmp_path / "run" / "run.json").read_text())
    (tmp_path / "run" / "run.json").write_text(json.dumps({**config, "weights": notes}))
    opened = Evaluation.open(tmp_path / "run")
    assert (opened.network, opened.plain) == (network, plain)


def test_every_figure_is_drawn_with_two_networks_of_one_sigma(tmp_path: Path) -> None:
    runs = [
        made_up_run(tmp_path / f"cifar10-{kind}sigma0.25", 0.25, trained=option)
        for kind, option in (("", "--sharpness 0.5"), ("plain-", "--objective plain"))
    ]
    assert figures.main(["--runs", *map(str, runs), "--out", str(tmp_path / "out")]) == 0
    with (tmp_path / "out" / "certified_accuracy.csv").open() as file:
        names = [row["run"] for row in csv.DictReader(file)]
    assert list(dict.fromkeys(names)) == ["cifar10-plain-sigma0.25", "cifar10-sigma0.25"]
    numbers = json.loads((tmp_path / "out" / "score_against_radius.json").read_text())
    assert [run["network"] for run in numbers["runs"]] == ["plain training", "training with sharpness 0.5"]


def test_published_points_are_drawn_where_the_sigma_is_the_logs(runs: list[Path]) -> None:
    small = made_up_run(runs[0].parent / "sigma0.12", 0.12)
    opened = [hf.Run.open(small), hf.Run.open(runs[0])]
    question = Question((0.0, 0.25, 0.5), (0.0, 0.3))
    figure = report_accuracy(opened, "margin", question)
    imagenet.add_published(figure, opened, question)
    points = [
        sorted(
            point
            for line in axes.lines
            if line.get_linestyle() == "None"
            for point in np.column_stack(line.get_data()).tolist()
        )
        for axes in figure.axes
    ]
    reach = figure.axes[-1].get_xlim()[1]
    logged = {key: dict(zip(RADII, values, strict=True)) for key, values in IMAGENET_MARGIN.items()}
    assert points[:2] == [[], []]
    for drawn, threshold in zip(points[2:], (0.0, 0.3), strict=True):
        assert drawn == sorted(
            [radius, value]
            for (_, _, of), values in logged.items()
            for radius, value in values.items()
            if of == threshold and value > 0 and radius <= reach
        )
    assert sum("another network" in text.get_text() for text in figure.legends[0].get_texts()) == 2


def test_imagenets_figures_3_and_4_are_drawn_from_its_images(tmp_path: Path) -> None:
    made = made_up_run(tmp_path / "sigma0.25", 0.25)
    pictures = np.random.default_rng(0).integers(0, 256, (20 * INPUTS, 3, 32, 32), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", val_images=pictures, val_labels=LABELS)
    assert imagenet.main([str(made), "--data", str(tmp_path / "images.npz"), "--out", str(tmp_path / "out")]) == 0
    assert {"pictures_sigma0.25.png", "score_against_radius.png"} <= {
        each.name for each in (tmp_path / "out").iterdir()
    }
    rules = [each["rule"] for each in json.loads((tmp_path / "out" / "pictures_sigma0.25.json").read_text())]
    assert "radius < 0.23" in rules[0]


def test_without_images_the_picture_grids_are_skipped_with_a_note(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert figures.main(["--runs", str(runs[0]), "--out", str(tmp_path)]) == 0
    assert "picture grids were skipped" in capsys.readouterr().err
    assert not list(tmp_path.glob("pictures*"))


def test_what_is_not_a_run_with_counts_is_refused(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert figures.main(["--runs", str(tmp_path), "--out", str(tmp_path / "out")]) == hf.RunError.exit_code
    assert figures.main(["--runs", str(runs[0]), str(runs[0]), "--out", str(tmp_path / "out")]) != 0
    assert "same name" in capsys.readouterr().err
    log = tmp_path / "label_sigma0.25.tsv"
    log.write_text("idx\tlabel\tpredict\tradius\tcorrect\ttime\n0\t1\t1\t0.5\t1\t1\n")
    import_log(log, tmp_path / "log")
    assert figures.main(["--runs", str(tmp_path / "log"), "--out", str(tmp_path / "out")]) == hf.RunError.exit_code
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("support", [(0.0, 1.0), (-1.0, 1.0)])
def test_the_best_possible_baseline_is_theorem_1_at_the_sample_mean(support: tuple[float, float]) -> None:
    a, b = support
    values = a + (b - a) * np.random.default_rng(1).beta(5, 2, 3_000)
    samples = hf.ScoreSamples(values, support=support, sigma=0.5)
    radii = np.array([0.0, 0.2, 0.5, 1.3])
    normal = NormalDist()
    expected = [
        b * normal.cdf(normal.inv_cdf((values.mean() - a) / (b - a)) - radius / 0.5)
        + a * (1 - normal.cdf(normal.inv_cdf((values.mean() - a) / (b - a)) - radius / 0.5))
        for radius in radii
    ]
    fine, coarse = (best_possible(samples.histogram(bins), radii) for bins in (16_384, 2_048))
    assert fine == pytest.approx(expected, abs=3e-4)
    # The grid may only flatter the rival: never below the line of the samples themselves.
    assert (fine >= np.array(expected)).all()
    assert (coarse >= fine).all()
    for mean in (hf.Hoeffding(), hf.EmpiricalBernstein(), hf.Betting()):
        assert (hf.bound(samples, alpha=0.001, method=hf.Naive(mean)).lower(radii) < expected).all()
    # Theorem 2 at the samples themselves is above Theorem 1 at their mean, and above every certificate of its kind.
    exact = hf.bound(samples, alpha=0.001, method=hf.CDF(hf.Empirical())).lower(radii)
    for bins, rival in ((16_384, fine), (2_048, coarse)):
        most = limit(samples.histogram(bins), radii)
        assert most == pytest.approx(exact, abs=3 * (b - a) / bins)
        assert (most >= exact - 1e-12).all()
        assert (most >= rival - 1e-9).all()


@pytest.mark.parametrize("case", [STEPS, naive_of(STEPS), WorstCase((0.3, 0.9), (1 - 1e-9, 0.2), least=-1.0)])
def test_the_worst_cases_average_is_its_integral(case: WorstCase) -> None:
    position = np.linspace(-9, 12, 500_001)
    for r in (0.0, 0.7, 1.0, 2.5):
        integral = np.sum(case.score(position) * norm.pdf(position, loc=r)) * (position[1] - position[0])
        assert float(case.average(np.array(r))) == pytest.approx(integral, abs=3e-5)


def test_the_worst_case_reaches_theorem_2_at_its_own_distribution() -> None:
    shares = -np.diff([1.0, *STEPS.reached, 0.0])
    values = np.repeat([0.0, *STEPS.levels], np.round(100 * shares).astype(int))
    assert values.size == 100
    sample = hf.ScoreSamples(values, sigma=0.25)
    r = np.array([0.0, 0.5, 1.0, 2.0])
    assert hf.bound(sample, alpha=0.1, method=hf.CDF(hf.Empirical())).lower(0.25 * r) == pytest.approx(STEPS.average(r))
    naive = hf.bound(sample, alpha=0.1, method=hf.Naive(hf.EmpiricalMean())).lower(0.25 * r)
    assert naive == pytest.approx(naive_of(STEPS).average(r))


def test_no_other_score_with_the_same_distribution_falls_as_low() -> None:
    rng = np.random.default_rng(2)
    # Cells of equal probability around x: any rearrangement of their scores has the same distribution there.
    edges = norm.ppf(np.linspace(0, 1, 101))
    scores = STEPS.score(norm.ppf((np.arange(100) + 0.5) / 100))
    assert float(scores.mean()) == pytest.approx(float(STEPS.average(np.array(0.0))))
    for r in (0.3, 1.0, 2.0):
        moved = np.diff(norm.cdf(edges - r))
        least = float(STEPS.average(np.array(r)))
        assert float(scores @ moved) == pytest.approx(least)
        assert all(float(rng.permutation(scores) @ moved) > least for _ in range(20))


def test_published_numbers_are_those_of_the_logs(published: Path, tmp_path: Path) -> None:
    for sigma in (0.25, 0.5):
        log = published / "cdf-smoothing" / f"cifar10_pred_score_sigma{sigma:.2f}.tsv"
        run = import_log(log, tmp_path / f"score{sigma}")
        for key, method in ((PAPER.key, "cdf-dkw"), (NAIVE.key, "naive-hoeffding")):
            for threshold in (0.5, 0.7, 0.9):
                found = run.certified_accuracy("score", radii=RADII, thresholds=[threshold], method=method)
                assert SCORE[sigma, key, threshold] == tuple(found[0].tolist())
        label = import_log(published / "cohen" / f"cifar10_sigma{sigma:.2f}.tsv", tmp_path / f"label{sigma}")
        assert LABEL[sigma] == tuple(label.certified_accuracy("label", radii=RADII)[0].tolist())


def test_published_margins_on_imagenet_are_those_of_the_log(published: Path, tmp_path: Path) -> None:
    run = import_log(published / "cdf-smoothing" / "imagenet_margin_sigma0.25.tsv", tmp_path / "margin")
    for (_, key, threshold), values in IMAGENET_MARGIN.items():
        method = {PAPER.key: "cdf-dkw", NAIVE.key: "naive-hoeffding"}[key]
        found = run.certified_accuracy("margin", radii=RADII, thresholds=[threshold], method=method)
        assert values == tuple(found[0].tolist())


@pytest.mark.parametrize(("sigma", "said", "inputs"), [("0.25", ".966", 406), ("0.50", ".931", 309)])
def test_the_published_average_scores_rank_inputs_as_the_published_radii_do(
    published: Path, sigma: str, said: str, inputs: int
) -> None:
    scores, radii = (
        {row["idx"]: row for row in csv.DictReader((published / log).read_text().splitlines(), delimiter="\t")}
        for log in (f"cdf-smoothing/cifar10_pred_score_sigma{sigma}.tsv", f"cohen/cifar10_sigma{sigma}.tsv")
    )
    answered_by_both = [key for key in scores if "-1" not in (scores[key]["predict"], radii[key]["predict"])]
    assert len(answered_by_both) == inputs
    score = np.array([float(scores[key]["exp_cdf_00"]) for key in answered_by_both])
    radius = np.array([float(radii[key]["radius"]) for key in answered_by_both])
    assert f"{float(spearman(score, radius)):.3f}" == f"0{said}"
    assert not ((radius < 0.2) & (score > 0.7)).any()
    assert not ((radius > 0.5) & (score < 0.4)).any()
    readme = (Path(figures.__file__).parent / "README.md").read_text()
    assert said in readme
    assert f"{inputs}" in readme


def confidence(index: int, radius: float, softmax: float, score: float = 0.0) -> Confidence:
    return Confidence(Answer(index, 0, 0, radius, score), softmax, preferred=0, largest=softmax)


def test_pictures_follow_the_papers_cut_offs_where_enough_inputs_meet_them() -> None:
    plain = [confidence(k, 0.01 * k, 0.008 * k) for k in range(100)]
    odd = [confidence(100 + k, 0.1, 0.9) for k in range(6)]
    # What the smoothed classifier's average score is plays no part: the paper's cut-offs are on the network's softmax.
    lured = [confidence(106 + k, 0.1, 0.5, score=0.99) for k in range(6)]
    few = [confidence(112 + k, 0.9 - 0.1 * k, 0.3) for k in range(3)]
    confident, doubtful = choose([*plain, *odd, *lured, *few])
    assert {each.answer.index for each in confident.shown} == set(range(100, 106))
    assert confident.shown == confident.meeting
    assert confident.rule == "radius < 0.2, softmax > 0.7: 6 of 115 inputs"
    assert doubtful.rule == "softmax < 0.4, the largest radii; with radius > 0.5: 3 of 115 inputs"
    assert doubtful.meeting == tuple(few)
    assert [each.answer.index for each in doubtful.shown] == [112, 113, 114, 49, 48, 47, 46, 45]


def test_cut_offs_are_strict_and_only_their_radii_scale() -> None:
    cut_offs = CutOffs(small=0.4, confident=0.6, large=0.9, doubtful=0.1).scaled(0.5)
    assert cut_offs == CutOffs(small=0.2, confident=0.6, large=0.45, doubtful=0.1)
    assert cut_offs.left(confidence(0, 0.19, 0.61))
    assert not any(cut_offs.left(confidence(0, *each)) for each in ((0.2, 0.61), (0.19, 0.6)))
    assert cut_offs.right(confidence(0, 0.46, 0.09))
    assert not any(cut_offs.right(confidence(0, *each)) for each in ((0.45, 0.09), (0.46, 0.1)))


def test_cut_offs_are_the_papers_unless_no_input_of_a_run_can_meet_them(runs: list[Path]) -> None:
    small, large = (Evaluation.open(path) for path in runs)
    reach = 0.25 * norm.ppf(0.001 ** (1 / N))  # Clopper-Pearson with all N votes for one class
    assert largest_radius(0.25, N) == pytest.approx(reach)
    assert IMAGENET.within_reach(large) is IMAGENET
    scaled = IMAGENET.within_reach(small)
    assert scaled.large == pytest.approx(0.9 * reach / 0.9526, abs=1e-3)
    assert scaled.small == pytest.approx(scaled.large * 0.4 / 0.9, abs=1e-3)
    assert (scaled.confident, scaled.doubtful) == (0.6, 0.1)
    assert f"{reach:.2f}" in scaled.why
    assert all(answer.label_radius <= reach for answer in small.answers)


def test_the_networks_confidence_is_for_the_class_that_the_smoothed_classifier_predicts(runs: list[Path]) -> None:
    opened = Evaluation.open(runs[0])
    stored = PlainSoftmax.beside(runs[0])
    found = confidences(opened)
    assert [each.answer for each in found] == list(opened.answers)
    for k, each in enumerate(found):
        assert each.softmax == pytest.approx(stored.probabilities[k, each.answer.predicted])
        assert each.largest == stored.probabilities[k].max() == stored.probabilities[k, each.preferred]
    assert {each.preferred == each.answer.predicted for each in found} == {True, False}


def test_figure_3_tells_a_network_that_ignores_the_radius_from_a_score_that_follows_it() -> None:
    rng = np.random.default_rng(6)
    radius, alone = rng.uniform(0.01, 1, (2, 300))
    points = [
        confidence(k, r, softmax, score=0.5 + r / 2) for k, (r, softmax) in enumerate(zip(radius, alone, strict=True))
    ]
    points += [confidence(300, 0.0, 0.9, score=0.9), confidence(301, 0.9, 0.9, score=0.5)]
    assert [each.answer.index for each in answered(points)] == list(range(300))
    found = rank_correlations(answered(points))
    assert found.rho[SCORE_AT_INPUT].estimate == pytest.approx(1.0)
    assert abs(found.rho[SOFTMAX].estimate) < 0.2
    assert not found.rho[SOFTMAX].excludes_zero
    assert found.less_reference[SOFTMAX].high < 0


def test_figures_without_the_networks_softmax_name_the_command_that_writes_it(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = made_up_run(tmp_path / "run", 0.25)
    (bare / "softmax.npz").unlink()
    assert figures.main(["--runs", str(bare), "--out", str(tmp_path / "out")]) == hf.RunError.exit_code
    assert "experiments.paper.softmax" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def correlated(rng: np.random.Generator, count: int, rho: float) -> tuple[Floats, Floats]:
    """Two samples with Spearman's correlation ``(6 / pi) arcsin(rho / 2)``; monotone maps do not change it."""
    x, z = rng.normal(size=(2, count))
    return np.exp(x), norm.cdf(rho * x + np.sqrt(1 - rho**2) * z)


def test_rank_correlation_is_scipys_ties_included() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 5, (2, 40)).astype(np.float64)
    assert float(spearman(x, y)) == pytest.approx(spearmanr(x, y).statistic)
    assert np.isnan(spearman(np.ones(4), y[:4]))


def test_the_interval_covers_the_true_rank_correlation_as_often_as_it_says() -> None:
    rng = np.random.default_rng(4)
    truth = 6 / np.pi * np.arcsin(0.6 / 2)
    covered = 0
    for seed in range(200):
        x, y = correlated(rng, 100, 0.6)
        found = agreement(y, {"x": x}, reference=None, resamples=200, seed=seed).rho["x"]
        covered += found.low <= truth <= found.high
    # 95% in the limit; at 100 inputs the percentile interval is a little short. 4 sd of 200 draws are 0.06.
    assert 0.88 <= covered / 200 <= 1.0


def test_a_closer_quantity_is_found_closer_and_an_equal_one_is_not() -> None:
    rng = np.random.default_rng(5)
    truth = rng.normal(size=400)
    near, far = truth + 0.5 * rng.normal(size=400), truth + 3 * rng.normal(size=400)
    found = agreement(truth, {"far": far, "near": near, "same": 2 * far + 1}, reference="far", resamples=500)
    assert found.less_reference["near"].low > 0
    assert found.less_reference["same"].estimate == 0
    assert not found.less_reference["same"].excludes_zero
    again = agreement(truth, {"far": far, "near": near, "same": 2 * far + 1}, reference="far", resamples=500)
    assert found == again


def test_the_human_study_says_what_its_numbers_say(tmp_path: Path) -> None:
    made = made_up_run(tmp_path / "run", 0.25)
    (made / "softmax.npz").unlink()
    opened = Evaluation.open(made)
    score = np.array([answer.score for answer in opened.answers])
    shares = np.full((20 * INPUTS, 10), 0.0)
    for answer, value in zip(opened.answers, score, strict=True):
        shares[answer.index] = (1 - value) / 9
        shares[answer.index, answer.predicted] = value
    shares[shares.sum(axis=1) == 0] = 0.1
    np.save(tmp_path / "human.npy", shares)
    human_shares = human.read_human(tmp_path / "human.npy")
    alone = human.study(opened, human_shares, resamples=100)
    assert alone.found["all_predicted"].rho["certified score at the input"].estimate == pytest.approx(1.0)
    assert alone.found["right_answers"].inputs == int(opened.right.sum()) < INPUTS
    assert "was not stored" in " ".join(human.in_words(alone, human.ANSWER))

    rows = np.full((INPUTS, 10), 0.1, dtype=np.float32)
    PlainSoftmax(np.array([answer.index for answer in opened.answers]), rows).write(made / "softmax.npz")
    flat = human.study(Evaluation.open(made), human_shares, resamples=100)
    written = human.write_study([flat], tmp_path / "out")
    assert {path.name for path in written} == {"human.png", "human.pdf", "human.svg", "human.md", "human.json"}
    numbers = json.loads((tmp_path / "out" / "human.json").read_text())
    assert numbers["runs"][0]["found"]["all_predicted"]["rho"]["plain softmax"]["estimate"] is None
    assert "| plain softmax | undefined |" in (tmp_path / "out" / "human.md").read_text()

    rows = np.full((INPUTS, 10), 0.0, dtype=np.float32)
    for k, answer in enumerate(opened.answers):
        rows[k] = score.mean() if k % 2 else 1 - score[k]
        rows[k] = (1 - rows[k, 0]) / 9
        rows[k, answer.predicted] = 1 - 9 * rows[k, (answer.predicted + 1) % 10]
    PlainSoftmax(np.array([answer.index for answer in opened.answers]), rows).write(made / "softmax.npz")
    better = human.study(Evaluation.open(made), human_shares, resamples=100)
    said = " ".join(human.in_words(better, human.ANSWER))
    assert "Highest rank correlation: certified score at the input, +1.00" in said
    assert "above zero for all" in said


def test_human_shares_that_are_not_shares_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "counts.npy", np.full((10, 10), 5.0))
    with pytest.raises(hf.DatasetError, match="one distribution"):
        human.read_human(tmp_path / "counts.npy")
    arguments = ["--runs", str(tmp_path), "--human", str(tmp_path / "none.npy")]
    assert human.main(arguments) == hf.DatasetError.exit_code
    assert "pass CIFAR-10H's" in capsys.readouterr().err


def test_plain_softmax_is_the_networks_and_is_read_back(tmp_path: Path) -> None:
    net, pictures = small_net(), images(7)
    found = plain_softmax(net, pictures)
    with torch.inference_mode():
        logits = net(torch.from_numpy(pictures)).numpy().astype(np.float64)
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert found == pytest.approx(expected, abs=1e-6)
    stored = PlainSoftmax(20 * np.arange(7), found)
    back = PlainSoftmax.read(stored.write(tmp_path / "softmax.npz"))
    assert back.of([40, 0], [3, 1]) == pytest.approx([expected[2, 3], expected[0, 1]], abs=1e-6)
    with pytest.raises(hf.InvalidInput, match="lacks 1 of"):
        back.of([40, 41], [0, 0])
    with pytest.raises(hf.InvalidInput, match="logits"):
        PlainSoftmax(np.arange(7), logits.astype(np.float32))


def test_the_commands_from_the_beginning_are_ones_holdfast_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    work = tmp_path / "work"
    assert reproduce.main(["--data", "cifar10.npz", "--work", str(work), "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not work.exists()
    group = typer.main.get_command(app)
    known = {name: {opt for each in command.params for opt in each.opts} for name, command in group.commands.items()}  # type: ignore[attr-defined]
    chains, last = reproduce.commands("cifar10", "cifar10.npz", work)
    steps = [*itertools.chain(*chains), *last]
    assert [shlex.join(step.argv) for step in steps] == lines
    ours = [step.argv[2:] for step in steps if step.argv[1:3] == ("-m", "holdfast")]
    studied = sum(map(len, STUDIES["cifar10"].objectives.values()))
    assert [argv[1] for argv in ours].count("train") == studied + 2
    assert [argv[1] for argv in ours].count("certify") == studied + 4
    for argv in ours:
        assert {word for word in argv if word.startswith("--")} <= known[argv[1]]
    made = [step.makes for step in steps if step.makes is not None]
    assert len(made) == len(set(made))  # no two chains write to one place
    drawn = " ".join(last[1].argv)
    assert all(str(work / "paper" / "compact" / name) in drawn for name in NAMES)


def test_beginning_anew_leaves_what_is_committed_alone(tmp_path: Path) -> None:
    work = tmp_path / "my work"
    (work / "paper" / "cifar10-sigma0.25").mkdir(parents=True)
    chains, last = reproduce.commands("cifar10", "my data/cifar10.npz", work)
    for step in (*itertools.chain(*chains), *last):
        assert not step.done
        assert step.makes is None or step.makes.is_relative_to(work)
        assert "experiments/paper" not in " ".join(step.argv)
        if "--data" in step.argv:
            assert step.argv[step.argv.index("--data") + 1] == "my data/cifar10.npz"


def test_steps_are_followed_until_one_fails_and_what_is_done_is_left_out(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def step(code: str, makes: Path | None) -> Step:
        return Step((sys.executable, "-c", code), makes)

    there = tmp_path / "there"
    there.touch()
    chains = [
        [step("print(1 / 0)", there), step(f"open({str(tmp_path / 'new' / 'a')!r}, 'w')", tmp_path / "new" / "a")],
        [step("raise SystemExit(3)", None), step("print('never')", None)],
    ]
    assert follow(chains, [step("print('never')", None)], at_once=2) == 3
    assert (tmp_path / "new" / "a").exists()
    assert "never" not in capfd.readouterr().out.replace("print('never')", "")
    assert follow(chains[:1], [step("print('then', 'this')", None)]) == 0
    assert "then this" in capfd.readouterr().out


def test_the_softmax_of_another_network_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model", "fashion-mnist", "--data", "fashion-mnist", "--sigma", "0.25", "--n", "200", "--max", "3"]
    assert holdfast(["certify", *options, "--out", str(tmp_path / "run")]) == 0
    arguments = ["--model", "any.safetensors", "--data", "fashion-mnist", "--run", str(tmp_path / "run")]
    own, other = load_embedded_model(), load_embedded_model()
    with torch.no_grad():
        next(other.net.parameters()).mul_(1.01)
    for found, code in ((other, hf.RunError.exit_code), (own, 0)):
        monkeypatch.setattr("holdfast.cli.models.open_model", lambda *_, found=found: found)
        assert softmax.main(arguments) == code
        assert (tmp_path / "run" / "softmax.npz").exists() == (code == 0)
    assert "is not the network that" in capsys.readouterr().err


def test_steps_that_are_done_are_not_done_again(runs: list[Path], tmp_path: Path) -> None:
    assert Step(("x",), runs[0]).done
    assert not Step(("x",), tmp_path / "none").done
    assert not Step(("x",), None).done
    interrupted = RunFolder.create(tmp_path / "half", {"kind": "certified", "status": "interrupted"})
    assert not Step(("x",), interrupted.path).done

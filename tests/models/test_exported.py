"""Programs: of torch.export, and TorchScript."""

import io
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import holdfast as hf
from holdfast.models.exported import ExportedModule
from model_files import exported, scripted
from networks import images, small_net

X = images(1)[0]


def certify(model: Any) -> hf.Certificate:
    return hf.SmoothedClassifier(model, 0.25).certify(X, n=2_000, seed=1)


def again(script: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.load(io.BytesIO(script.save_to_buffer()))  # type: ignore[no-untyped-call]


@pytest.mark.usefixtures("two_threads")
def test_programs_have_the_modules_counts_whatever_batch_they_were_exported_for() -> None:
    meant = certify(small_net()).evidence
    for program in (exported(small_net()), exported(small_net(), rows=3), exported(small_net(), rows=100)):
        assert certify(program).evidence == meant
    assert certify(scripted(small_net())).evidence == meant
    most = torch.export.export(
        small_net(), (torch.zeros(2, 1, 6, 6),), dynamic_shapes=({0: torch.export.Dim("rows", min=2, max=24)},)
    )
    assert ExportedModule(most).rows == 24
    assert certify(most).evidence == meant


def test_programs_are_replicated_with_their_weights_shared_and_their_attributes_not() -> None:
    class Counting(nn.Module):
        calls: int

        def __init__(self) -> None:
            super().__init__()
            self.net, self.tied, self.calls, self.seen = small_net(), nn.Linear(4, 4), 0, torch.zeros(1)
            self.again = self.tied

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.seen[0] += 1.0
            answer: Tensor = self.again(self.tied(self.net(x)))
            return answer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripts = [torch.jit.script(Counting()) for _ in range(2)]
    rows = torch.from_numpy(images(3))
    for whole in (exported(small_net()), scripts[0], nn.Sequential(scripts[1])):
        smoothed = hf.SmoothedClassifier(whole, 0.25)
        first, second = (smoothed.model.replicate(torch.device("cpu")) for _ in range(2))
        assert first is not None
        assert second is not None
        before = first.probabilities(rows)
        assert torch.equal(second.probabilities(rows), before)
        if isinstance(whole, nn.Module):
            script = whole[0] if isinstance(whole, nn.Sequential) else whole
            assert script.calls == 0
            assert not torch.as_tensor(script.seen).any()
            with torch.no_grad():
                next(whole.parameters()).mul_(2.0)
            after = first.probabilities(rows)
            assert not torch.equal(after, before)
            assert torch.equal(after, second.probabilities(rows))


def test_fingerprints_are_equal_for_equal_programs_and_different_for_others() -> None:
    def fingerprint(model: Any) -> str | None:
        return hf.SmoothedClassifier(model, 0.25).fingerprint

    stored = io.BytesIO()
    torch.export.save(exported(small_net()), stored)
    stored.seek(0)
    script = scripted(small_net())
    found = [
        {fingerprint(exported(small_net())), fingerprint(torch.export.load(stored))},
        {fingerprint(script), fingerprint(again(script)), fingerprint(again(again(script)).eval())},
        {fingerprint(nn.Sequential(again(script), nn.Identity())), fingerprint(nn.Sequential(script, nn.Identity()))},
        {fingerprint(exported(small_net(seed=1)))},
        {fingerprint(scripted(small_net(seed=1)))},
        {fingerprint(exported(nn.Sequential(small_net(), nn.Tanh())))},
    ]
    assert all(len(each) == 1 and None not in each for each in found)
    assert len(set.union(*found)) == len(found)


def test_a_program_for_other_inputs_is_refused_in_words() -> None:
    with pytest.raises(
        hf.ModelError, match=r"was exported for inputs of shape \(1, 6, 6\), got inputs of shape \(1, 12, 12\)"
    ):
        hf.SmoothedClassifier(exported(small_net()), 0.25).certify(X.repeat(2, 1).repeat(2, 2), n=100)

    class Two(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return x + y

    program = torch.export.export(Two(), (torch.zeros(2, 3), torch.zeros(2, 3)))
    with pytest.raises(hf.InvalidArgument, match="one with 2 inputs and 1 outputs"):
        hf.SmoothedClassifier(program, 0.25)


def test_a_program_is_attacked_by_gradients() -> None:
    model = hf.SmoothedClassifier(exported(small_net()), 0.25).model
    rows = torch.from_numpy(images(3))
    found = model.gradient(rows, lambda probabilities: probabilities[:, 0])
    meant = hf.TorchModel(small_net()).gradient(rows, lambda probabilities: probabilities[:, 0])
    assert found is not None
    assert meant is not None
    assert torch.allclose(found, meant, atol=1e-6)

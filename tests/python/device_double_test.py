"""The double of a device raises and counts where CUDA would, else it would prove nothing."""

import copy

import numpy as np
import pytest
import torch

import device_double
from device_double import DEVICE, OnDevice

HERE = __file__.rsplit("/", 1)[1]


@pytest.fixture
def device():
    with device_double.found() as found:
        yield found


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(
    "mix",
    [
        lambda far, near: far + near,
        lambda far, near: near * far,
        lambda far, near: far @ near.T,
        lambda far, near: torch.cat([far, near]),
        lambda far, near: torch.where(near > 0, far, far),
        lambda far, near: far.masked_fill(near > 0, 0.0),
        lambda far, near: far.add_(near),
        lambda far, near: torch.cat([far[0], near[0, 0][None]]),
        lambda far, near: torch.nn.functional.scaled_dot_product_attention(far, near, near),
        lambda far, near: far.gather(1, near.long().clamp(0, 1)),
    ],
)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_tensors_of_both_places_do_not_meet(mix, mode, device):
    near = numbers(3, 3)
    far = near.to("cuda")
    with mode(), pytest.raises(RuntimeError, match="same device"):
        mix(far, near)


def test_what_cuda_takes_from_the_cpu_is_taken_and_counted(device):
    near = numbers(4)
    far = near.to("cuda")
    assert torch.equal((far * near[1] + 2).cpu(), near * near[1] + 2)  # no dimensions
    device.uploads.clear()
    assert torch.equal(far[torch.tensor([2, 0])].cpu(), near[[2, 0]])
    far[torch.tensor([1])] = 5.0
    assert far.tolist()[1] == 5
    assert sum(device.uploads.values()) >= 2


@pytest.mark.parametrize(
    "unseen",
    [
        lambda far: far.numpy(),
        lambda far: np.asarray(far),
        lambda far: torch.zeros(3).copy_(far),
        lambda far: torch.zeros(2, 3).__setitem__(0, far),
        lambda far: torch.zeros(3)[far.long()],
    ],
)
def test_no_number_reaches_the_host_unseen(unseen, device):
    with pytest.raises((TypeError, RuntimeError), match=r"numpy|CPU"):
        unseen(torch.zeros(3, device="cuda"))


@pytest.mark.parametrize(
    ("wait", "times"),
    [
        (lambda far: far.cpu(), 1),
        (lambda far: far.to("cpu", torch.float64), 1),
        (lambda far: far[0].item(), 1),
        (lambda far: bool((far > 0).all()), 1),
        (lambda far: int(far[1]), 1),
        (lambda far: far.tolist(), 1),
        (lambda far: [float(each) for each in far], 3),
        (lambda far: far[far > 0], 1),
        (lambda far: far.nonzero(), 1),
        (lambda far: far.unique(), 1),
        (lambda far: torch.masked_select(far, far > 0), 1),
        (lambda far: torch.equal(far, far + 1), 1),
        (lambda far: far.repeat_interleave(torch.ones(3, device="cuda").long()), 1),
        (lambda far: "positive" if far.sum() > 0 else "", 1),
        (lambda far: far + 1, 0),
        (lambda far: far.__setitem__(far > 0, 0.0), 0),  # a fill needs no places
        (lambda far: far.masked_fill(far > 0, 1.0), 0),
        (lambda far: torch.where(far > 0, far, 0.0), 0),
        (lambda far: far.repeat_interleave(2), 0),
        (lambda far: far.shape[0] + far.numel() + far.dim(), 0),
        (lambda far: torch.zeros(3, pin_memory=True).copy_(far, non_blocking=True), 0),
    ],
)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_the_host_waits_so_often(wait, times, mode, device):
    with mode():
        far = torch.tensor([1.0, 2.0, 4.0], device="cuda")
        device.waits.clear()
        wait(far)
    assert sum(device.waits.values()) == times
    assert all(HERE in line for line in device.waits)
    assert device.own_waits() == 0  # this line is none of the package


def test_numbers_of_the_device_are_those_of_the_cpu(device):
    near = numbers(2, 4, 6)
    far = near.to(DEVICE)
    assert (far.device, far.is_cuda, far.shape) == (DEVICE, True, near.shape)
    for made in (torch.zeros(2, device="cuda"), far.new_ones(3), torch.arange(3, device=DEVICE)):
        assert made.device == DEVICE
    far[:, 1:3].mul_(2)  # a view of the same memory
    near[:, 1:3].mul_(2)
    assert torch.equal(far.cpu(), near)
    assert far.mul_(3) is far
    copied = copy.deepcopy(far)
    far.zero_()
    assert torch.equal(copied.cpu(), near * 3)


def test_a_copy_on_a_stream_of_its_own_waits_where_its_event_is_waited_for(device):
    far, near = torch.arange(3.0, device="cuda"), torch.empty(3).pin_memory()
    stream, done = torch.cuda.Stream(), torch.cuda.Event()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        near.copy_(far, non_blocking=True)
        far.record_stream(stream)
        done.record(stream)
    assert not device.waits
    done.synchronize()
    assert sum(device.waits.values()) == 1
    assert near.tolist() == [0, 1, 2]


def test_attention_and_its_gradients_are_those_of_the_cpu(device):
    own = torch.nn.functional.scaled_dot_product_attention
    mask = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]

    def gradient(query, mask):
        query.requires_grad_()
        attended = own(query, query, query * query[:, :1], attn_mask=mask)
        (found,) = torch.autograd.grad(
            attended, [query], torch.ones_like(attended), retain_graph=False
        )
        return attended.detach().cpu(), found.cpu()

    near = gradient(numbers(2, 3, 5, 4), mask)
    far = gradient(numbers(2, 3, 5, 4).to("cuda"), mask.to("cuda"))
    for expected, found in zip(near, far, strict=True):
        torch.testing.assert_close(found, expected)


def test_a_model_that_is_moved_stays_itself(device):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 2, bias=False))
    model[0].register_buffer("seen", torch.zeros(2))
    first, ids = model[0].weight, numbers(1, 3)
    expected = model(ids).detach()
    with torch.no_grad():
        model.to("cuda")
        assert model[0].weight is first
        assert isinstance(first, OnDevice) and model[0].seen.device == DEVICE
        torch.testing.assert_close(model(ids.to("cuda")).cpu(), expected)
        with pytest.raises(RuntimeError, match="same device"):
            model(ids)


def test_without_the_double_there_is_no_device():
    before = torch.cuda.is_available()
    with device_double.found():
        assert torch.cuda.is_available()
    assert torch.cuda.is_available() == before
    assert torch.zeros(2).device.type == "cpu"

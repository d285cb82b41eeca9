"""The name of a model's weights: a digest of all of them."""

import hashlib

import torch

BYTES_AT_ONCE = 1 << 26


def model_id(model: torch.nn.Module) -> str:
    """The SHA-256 over the sorted lines `NAME DTYPE SHAPE SHA256` of a model's weights.

    The weights are the tensors of its state_dict. DTYPE is as in float32, SHAPE as in 260,128, and
    the last word is the SHA-256 of the little-endian elements in row-major order. A line ends with
    a newline.
    """
    lines = [
        f"{name} {str(weight.dtype).removeprefix('torch.')} "
        f"{','.join(map(str, weight.shape))} {_digest(weight)}\n"
        for name, weight in model.state_dict().items()
        if isinstance(weight, torch.Tensor)
    ]
    return hashlib.sha256("".join(sorted(lines)).encode()).hexdigest()


def _digest(weight: torch.Tensor) -> str:
    """Of little-endian machines, which are all that PyTorch supports well."""
    digest = hashlib.sha256()
    flat = weight.detach().contiguous().reshape(-1)
    for part in flat.split(max(1, BYTES_AT_ONCE // max(1, weight.element_size()))):
        digest.update(part.cpu().view(torch.uint8).numpy())
    return digest.hexdigest()

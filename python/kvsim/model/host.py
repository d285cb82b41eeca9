"""Numbers of a model's device on the CPU, many tensors in one copy."""

import torch


def on_host(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """The same numbers, types and shapes on the CPU, without gradients.

    Each copy makes the CPU wait until the device has computed all before it, so tensors of one
    device come in one. Those of the CPU stay as they are.
    """
    found = [tensor.detach() for tensor in tensors]
    places: dict[torch.device, list[int]] = {}
    for place, tensor in enumerate(found):
        if tensor.device.type != "cpu":
            places.setdefault(tensor.device, []).append(place)
    for together in places.values():
        # As bytes, the widest numbers first: each part then begins at a multiple of its width.
        together.sort(key=lambda place: -found[place].dtype.itemsize)
        parts = [found[place].contiguous().flatten().view(torch.uint8) for place in together]
        copied = parts[0].cpu() if len(parts) == 1 else torch.cat(parts).cpu()
        for place, part in zip(together, copied.split([len(part) for part in parts]), strict=True):
            found[place] = part.view(found[place].dtype).view(found[place].shape)
    return found

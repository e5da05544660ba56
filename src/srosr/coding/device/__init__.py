"""Coding on a device: the same contract, Gram in and certified codes out, on Torch tensors.

:mod:`.block_active_set` is the algorithm, in plain PyTorch; :mod:`.triton_kernel` the same as a kernel for a card;
:mod:`.path_solver` chooses between them, :mod:`.many_atoms` does without the Gram matrix of all atoms, and
:mod:`.device_coder` takes a chunk of samples through solution and certificate and hands what is left to the CPU.
"""

from .chunks import count_fitting, map_chunks, name_failures
from .device_batch import encode_on_device
from .device_coder import DeviceCoder
from .device_codes import DeviceCodes

__all__ = ["DeviceCoder", "DeviceCodes", "count_fitting", "encode_on_device", "map_chunks", "name_failures"]

"""`jax._src.hardware_utils`: which accelerators this machine has, as its file system says."""

from __future__ import annotations

import enum
import glob
import os
from pathlib import Path

_GOOGLE_PCI_VENDOR_ID = "0x1ae0"


class TpuVersion(enum.Enum):
    """The versions of TPUs."""

    v2 = 0
    v3 = 1
    plc = 2
    v4 = 3
    v5p = 4
    v5e = 5
    v6e = 6
    tpu7x = 7


# By the number of a chip's model on the PCI bus.
_TPU_PCI_DEVICE_IDS = {
    "0x0027": TpuVersion.v3,
    "0x0056": TpuVersion.plc,
    "0x005e": TpuVersion.v4,
    "0x0062": TpuVersion.v5p,
    "0x0063": TpuVersion.v5e,
    "0x006f": TpuVersion.v6e,
    "0x0076": TpuVersion.tpu7x,
}
_NVIDIA_GPU_DEVICES = ["/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg"]


def num_available_tpu_chips_and_device_id() -> tuple[int, str | None]:
    """How many chips of TPUs there are, and the model's number."""
    count, model = 0, None
    for vendor in glob.glob("/sys/bus/pci/devices/*/vendor"):
        if Path(vendor).read_text().strip() == _GOOGLE_PCI_VENDOR_ID:
            found = Path(vendor).with_name("device").read_text().strip()
            if found in _TPU_PCI_DEVICE_IDS:
                count, model = count + 1, found
    return count, model


def has_visible_nvidia_gpu() -> bool:
    """Is there a GPU of Nvidia's?"""
    return any(map(os.path.exists, _NVIDIA_GPU_DEVICES))


def num_available_amd_gpus(stop_at: int | None = None) -> int:
    """How many GPUs of AMD's there are; `stop_at` ends the search."""
    count = 0
    for node in glob.glob("/sys/class/kfd/kfd/topology/nodes/*/gpu_id"):
        if stop_at is not None and count >= stop_at:
            break
        count += Path(node).read_text().strip() not in ("", "0")
    return count


def transparent_hugepages_enabled() -> bool:
    """Does the system give large pages to who asks for memory?"""
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    return path.exists() and "[always]" in path.read_text()


def get_shm_size_in_mb() -> float | None:
    """The size of shared memory in MB, where that is known."""
    if not hasattr(os, "statvfs") or not os.path.exists("/dev/shm"):
        return None
    found = os.statvfs("/dev/shm")
    return found.f_frsize * found.f_blocks / (1024 * 1024)

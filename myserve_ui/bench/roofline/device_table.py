"""What makers state about devices people buy: memory, its bandwidth, and the dense 16-bit matrix rate."""

from __future__ import annotations

from dataclasses import dataclass

from myserve_ui.errors import InvalidRequestError

GB, TERA = 10**9, 10**12


@dataclass(frozen=True, slots=True)
class Device:
    """One device by its datasheet; what can be reached is less, often 80 to 90 % of it."""

    name: str
    memory_gb: float
    """In 10^9 bytes, as makers count. Of Apple's chips the most that can be bought, shared with the system."""
    gb_per_s: float
    """Memory bandwidth, 10^9 bytes a second."""
    teraflops: float | None
    """Of a dense product in 16 bits that adds up in 32; None where the maker states none."""
    source: str

    @property
    def memory_bytes(self) -> int:
        return int(self.memory_gb * GB)

    @property
    def bytes_per_s(self) -> float:
        return self.gb_per_s * GB

    @property
    def flops_per_s(self) -> float | None:
        return None if self.teraflops is None else self.teraflops * TERA


H200 = "NVIDIA H200 Tensor Core GPU datasheet (half of the rate with sparsity)"
H100 = "NVIDIA H100 Tensor Core GPU datasheet (half of the rate with sparsity)"
A100 = "NVIDIA A100 Tensor Core GPU datasheet"
AMPERE = "NVIDIA Ampere GA102 GPU architecture whitepaper"
ADA = "NVIDIA Ada GPU architecture whitepaper"
BLACKWELL = "NVIDIA RTX Blackwell GPU architecture whitepaper"
APPLE = "Apple, technical specifications of the Macs with this chip"

DEVICES = (
    Device("H200 SXM", 141, 4800, 989, H200),
    Device("H100 SXM", 80, 3350, 989, H100),
    Device("H100 PCIe", 80, 2000, 756, H100),
    Device("A100 80GB SXM", 80, 2039, 312, A100),
    Device("A100 80GB PCIe", 80, 1935, 312, A100),
    Device("A100 40GB", 40, 1555, 312, A100),
    Device("L40S", 48, 864, 362, "NVIDIA L40S GPU datasheet"),
    Device("L4", 24, 300, 121, "NVIDIA L4 Tensor Core GPU datasheet (half of the rate with sparsity)"),
    Device("T4", 16, 300, 65, "NVIDIA T4 Tensor Core GPU datasheet"),
    Device("MI300X", 192, 5300, 1307, "AMD Instinct MI300X accelerator data sheet"),
    Device("RTX 5090", 32, 1792, 209.5, BLACKWELL),
    Device("RTX 4090", 24, 1008, 165.2, ADA),
    Device("RTX 3090", 24, 936, 71, AMPERE),
    Device("Apple M4", 32, 120, None, APPLE),
    Device("Apple M4 Pro", 64, 273, None, APPLE),
    Device("Apple M4 Max (40 GPU cores)", 128, 546, None, APPLE),
    Device("Apple M3 Ultra", 512, 819, None, APPLE),
    Device("Apple M2 Ultra", 192, 800, None, APPLE),
    Device("Apple M1 Max", 64, 400, None, APPLE),
    Device("PC, 2 channels of DDR5-5600", 96, 89.6, None, "2 channels x 8 bytes x 5.6 GT/s"),
    Device("PC, 2 channels of DDR4-3200", 64, 51.2, None, "2 channels x 8 bytes x 3.2 GT/s"),
)


def find_device(name: str) -> Device:
    """The device called `name`, or the only one whose name has it, whatever the case. Raises InvalidRequestError."""
    wanted = name.strip().lower()
    exact = [device for device in DEVICES if device.name.lower() == wanted]
    found = exact or [device for device in DEVICES if wanted and wanted in device.name.lower()]
    if len(found) != 1:
        known = ", ".join(device.name for device in (found or DEVICES))
        problem = "could be several devices" if found else "is no known device"
        raise InvalidRequestError(f"{name[:40]!r} {problem}; choose one of: {known}.", param="device")
    return found[0]

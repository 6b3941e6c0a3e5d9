"""The wire with the kernel's receive timestamps: a transport of our own behind httpx's seam."""

from loadgen.drive.kernel.aside import reader_name
from loadgen.drive.kernel.transport import KernelTransport, make_kernel_transport

__all__ = ["KernelTransport", "make_kernel_transport", "reader_name"]

"""`tiny/eager`: the whole of what a maker writes so that mindgap runs graphs on its device."""

from mindgap.platforms.pytorch.eager import EagerBackend, TorchDevice

BACKEND = EagerBackend(
    TorchDevice(
        name="tiny",
        torch_name="tiny",
        maker="Tiny Silicon",
        distribution="tiny-accelerator",
        module="tiny_accelerator",
        options=("threads", "deterministic"),
    )
)

"""Inductor: its configuration, the vector instructions that it picks, its cache directory."""

from typing import Any

import torch._inductor.config
from torch._inductor.cpu_vec_isa import pick_vec_isa as pick_vec_isa
from torch._inductor.runtime.cache_dir_utils import default_cache_dir as default_cache_dir

#: `torch._inductor.config`, whose `patch` is made at import and has no type.
inductor_config: Any = torch._inductor.config

"""Pytrees: flattening and mapping of nested containers, including those that libraries register."""

from torch.utils._pytree import keystr as keystr
from torch.utils._pytree import tree_flatten as tree_flatten
from torch.utils._pytree import tree_leaves as tree_leaves
from torch.utils._pytree import tree_map as tree_map
from torch.utils._pytree import tree_map_only as tree_map_only
from torch.utils._pytree import tree_map_with_path as tree_map_with_path
from torch.utils._pytree import tree_unflatten as tree_unflatten

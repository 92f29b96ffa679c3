"""The measuring script of this benchmark: eager, float64 and a platform side by side, without mindgap."""

"""Results of studies as stores hold them: predictions, and functions of other frameworks."""

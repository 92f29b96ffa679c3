"""Runs graphs on ONNX Runtime's execution providers, and in browsers."""

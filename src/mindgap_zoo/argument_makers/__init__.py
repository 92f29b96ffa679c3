"""Makes arguments for models of libraries: images, texts, and the inputs of diffusers and transformers."""

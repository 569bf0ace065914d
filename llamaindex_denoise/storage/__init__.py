"""Settings kept and moved: cache keys, pickles, and denoising when documents are indexed."""

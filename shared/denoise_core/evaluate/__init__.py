"""Measuring what denoising does: metrics with intervals, data sets, and harnesses for the three methods."""

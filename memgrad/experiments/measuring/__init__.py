"""Measuring a problem: the spectrum of its curvature, the noise of its gradient, and the shape of its loss curve.

`measure` does it, by the method of `lanczos` on `products` of curvature matrices with vectors.
"""

"""Measuring a problem: the spectrum of its curvature, the noise of its gradient, and the shape of its loss curve."""

"""How a probe comes to be: labelled questions, readings, a sweep over layers, controls, calibration."""

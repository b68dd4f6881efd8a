"""Asks cuDNN, on a machine without a GPU, which workspaces its convolutions would take on a given GPU.

cuDNN 9.8 and later answers for a described device instead of a present one. ``python -m cudnn_workspaces query``
answers for one convolution; ``generate`` writes a table of many. It needs cuDNN's pip packages and, for ``generate``,
pyarrow; nothing of CUDA has to run.
"""

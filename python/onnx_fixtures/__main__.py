"""Writes every fixture: ``python -m onnx_fixtures FOLDER``, in the folder ``python`` of the repository.

For each network its captured graph, which is what the ONNX files must be read as, and one ONNX file for each exporter,
operator set and mode.
"""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

import torch

from onnx_fixtures.networks import NETWORKS
from plimsoll_gpu.capture import capture, to_text

SCRIPT = [(11, "train"), (17, "train"), (17, "eval"), (18, "eval")]
"""Operator sets and modes of the older exporter, which traces TorchScript."""
DYNAMO = [(18, "eval"), (21, "train"), (23, "eval")]
"""Operator sets and modes of the newer one."""

OLDEST = {"convolutions": 11, "tokens": 14}
"""The first operator set in which the older exporter can write each network."""


def main(folder: Path) -> None:
    """Writes all fixtures into a folder."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    folder.mkdir(parents=True, exist_ok=True)
    for name, network in NETWORKS.items():
        torch.manual_seed(0)
        model = network()
        images = torch.zeros(2, 3, 16, 16)
        (folder / f"{name}.json").write_text(to_text(capture(model, images, name)), encoding="utf-8")
        for opset, mode in SCRIPT:
            if opset < OLDEST[name]:
                continue
            model.train(mode == "train")
            torch.onnx.export(
                model,
                (images,),
                str(folder / f"{name}-script-{opset}-{mode}.onnx"),
                dynamo=False,
                opset_version=opset,
                training=torch.onnx.TrainingMode.TRAINING if mode == "train" else torch.onnx.TrainingMode.EVAL,
                input_names=["x"],
                dynamic_axes={"x": {0: "batch"}},
            )
        for opset, mode in DYNAMO:
            model.train(mode == "train")
            program = torch.onnx.export(
                model,
                (images,),
                dynamo=True,
                opset_version=opset,
                input_names=["x"],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                verbose=False,
            )
            assert program is not None
            program.save(str(folder / f"{name}-dynamo-{opset}-{mode}.onnx"), external_data=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

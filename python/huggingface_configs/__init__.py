"""Writes down what transformers makes of configurations, for holding the reader of `config.json` against it."""

"""specload: load testing of LLM inference servers whose subject is speculative decoding."""

__version__ = "0.1.0"

"""Make the two tiny models that a real vLLM serves on a CPU: `tiny-target` and its draft `tiny-draft`.

The target is a random 4-layer Llama (hidden size 256, vocabulary 4,096); its tokenizer is a byte-level BPE
trained on the sources of Python's own standard library, so nothing is downloaded. The draft is the target
with Gaussian noise on every weight, of 1 % of that weight matrix's standard deviation: about 70 % of greedy
drafts are accepted then (2 %: about 50 %).

Usage: python make_tiny_models.py FOLDER   (needs torch, transformers and tokenizers: the vLLM environment)
"""

import argparse
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

VOCAB_SIZE = 4_096
HIDDEN_SIZE = 256
LAYERS = 4
MAX_POSITIONS = 2_048
#: Standard deviation of the draft's weight noise, as a share of each matrix's own standard deviation.
DRAFT_NOISE = 0.01
#: Factor on the output weights: makes sampling at temperature 1 as peaked as a real model's (the best token has
#: about a third of the probability) and, being a power of two, changes no greedy token.
LOGIT_SCALE = 16.0
SEED = 20_260_101
#: Enough text for 4,096 merges; more only costs time.
TRAINING_BYTES = 6_000_000

SPECIAL_TOKENS = ["<s>", "</s>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}<|end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def library_sources(limit_bytes: int) -> Iterator[str]:
    """Sources of the standard library in a fixed order, until `limit_bytes` bytes were given."""
    root = Path(sysconfig.get_paths()["stdlib"])
    given = 0
    for path in sorted(root.rglob("*.py")):
        if "site-packages" in path.parts or "test" in path.parts:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        yield text
        given += len(text)
        if given >= limit_bytes:
            return


def train_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(library_sources(TRAINING_BYTES), trainer)
    if tokenizer.get_vocab_size() != VOCAB_SIZE:
        raise SystemExit(f"the tokenizer has {tokenizer.get_vocab_size()} tokens, not {VOCAB_SIZE}")
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=MAX_POSITIONS,
    )


def make_target() -> LlamaForCausalLM:
    torch.manual_seed(SEED)
    config = LlamaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=HIDDEN_SIZE,
        intermediate_size=2 * HIDDEN_SIZE,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=MAX_POSITIONS,
        bos_token_id=SPECIAL_TOKENS.index("<s>"),
        eos_token_id=SPECIAL_TOKENS.index("</s>"),
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).to(torch.float32)
    with torch.no_grad():
        model.lm_head.weight.mul_(LOGIT_SCALE)
    return model


def add_noise(model: LlamaForCausalLM, share: float) -> None:
    """Add noise to every weight matrix in place; norm weights are all ones and stay so."""
    generator = torch.Generator().manual_seed(SEED + 1)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                noise = torch.randn(weight.shape, generator=generator)
                weight.add_(noise * weight.std() * share)


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Make tiny-target and tiny-draft for a real vLLM on a CPU.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--noise", type=float, default=DRAFT_NOISE, help="see DRAFT_NOISE")
    args = parser.parse_args(argv)
    tokenizer = train_tokenizer()
    model = make_target()
    for name in ("tiny-target", "tiny-draft"):
        if name == "tiny-draft":
            add_noise(model, args.noise)
        model.save_pretrained(args.folder / name)
        tokenizer.save_pretrained(args.folder / name)


if __name__ == "__main__":
    main(sys.argv[1:])

#!/bin/bash
# vllm.sh CONCURRENCY REQUESTS OUTPUT_TOKENS RESULT.json       vllm bench serve against the truth server
# Environment: PORT, OUT (folder for results), TOKENIZER (a local tokenizer folder), VLLM_ENV.
export HF_HUB_OFFLINE=1 VLLM_LOGGING_LEVEL=ERROR VLLM_NO_USAGE_STATS=1 TOKENIZERS_PARALLELISM=false
exec "$VLLM_ENV/bin/vllm" bench serve --backend openai --base-url "http://127.0.0.1:$PORT" --endpoint /v1/completions \
    --model tiny --tokenizer "$TOKENIZER" --dataset-name random --random-input-len 32 --random-output-len "$3" \
    --num-prompts "$2" --max-concurrency "$1" --ignore-eos --disable-tqdm \
    --percentile-metrics ttft,tpot,itl,e2el --metric-percentiles 50,99 \
    --save-result --result-dir "$OUT" --result-filename "$4"

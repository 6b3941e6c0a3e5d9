#!/bin/bash
# aiperf.sh CONCURRENCY REQUESTS OUTPUT_TOKENS FOLDER       AIPerf against the truth server
# Environment: PORT, OUT (folder for results), TOKENIZER (a local tokenizer folder), AIPERF_ENV.
unset HF_HUB_OFFLINE TRANSFORMERS_OFFLINE # with them AIPerf refuses a local tokenizer
export TOKENIZERS_PARALLELISM=false HF_HUB_DISABLE_TELEMETRY=1
exec "$AIPERF_ENV/bin/aiperf" profile -m tiny --url "http://127.0.0.1:$PORT" --endpoint-type completions --streaming \
    --concurrency "$1" --request-count "$2" --tokenizer "$TOKENIZER" --synthetic-input-tokens-mean 32 \
    --output-tokens-mean "$3" --use-legacy-max-tokens --use-server-token-count --ui none --output-artifact-dir "$OUT/$4"

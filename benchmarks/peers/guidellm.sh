#!/bin/bash
# guidellm.sh CONCURRENCY REQUESTS OUTPUT_TOKENS RESULT.json       GuideLLM against the truth server
# Environment: PORT, OUT (folder for results), TOKENIZER (a local tokenizer folder), GUIDELLM_ENV.
export HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false GUIDELLM__LOGGING__CONSOLE_LOG_LEVEL=ERROR
exec "$GUIDELLM_ENV/bin/guidellm" run \
    --backend "kind=openai_http,target=http://127.0.0.1:$PORT,model=tiny,request_format=/v1/completions" \
    --profile "kind=concurrent,streams=$1" --constraint "kind=max_requests,count=$2" \
    --tokenizer "kind=hf_auto,model=$TOKENIZER" --data "kind=synthetic_text,prompt_tokens=32,output_tokens=$3" \
    --output "kind=json,path=$OUT/$4" --disable-console

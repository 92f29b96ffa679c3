#!/usr/bin/env bash
# One machine of a fleet: `machine.sh install`, then `machine.sh run` with STORE=s3://BUCKET/NAME.
set -euo pipefail
case "$1" in
    install)
        python3 -m venv ~/mindgap
        ~/mindgap/bin/pip install --quiet ".[s3,onnxruntime,openvino]"
        ;;
    run)
        if [ -e ~/campaign/campaign.json ]; then
            # The machine was taken away and came back.
            ~/mindgap/bin/mindgap campaign resume ~/campaign
        else
            ~/mindgap/bin/mindgap campaign run ~/cases.bundle --out ~/campaign --store "${STORE:?set STORE=s3://BUCKET/NAME}"
        fi || [ $? -eq 1 ] # 1: there are findings.
        ;;
    *)
        echo "machine.sh install|run" >&2
        exit 2
        ;;
esac

#!/usr/bin/env bash
# A Chromium for the tests of the page, from the system's own packages. Nothing happens where there is one already.
set -euo pipefail

for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null; then
        echo "$name is there"
        exit
    fi
done
sudo=
[ "$(id -u)" -eq 0 ] || sudo="sudo -n"
if ! command -v apt-get >/dev/null; then
    echo "no apt-get here: install Chromium another way, or go without the tests marked \`browser\`" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
echo "chromium is installed"

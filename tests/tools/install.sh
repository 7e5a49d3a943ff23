#!/usr/bin/env bash
# Installs real programs on which verdicts are tried: linters, formatters, version flags, editors.
#
# usage: tests/tools/install.sh [FOLDER]
# Debian packages go to the system (needs root); Python and npm packages go below FOLDER (default
# /opt/calibrun-tools); printed last is what to put first in PATH.
set -euo pipefail

folder=${1:-/opt/calibrun-tools}
mkdir -p "$folder/bin"

debian=(
    acl attr bash coreutils curl dash e2fsprogs fd-find gdb grep jq libxml2-utils make maven
    openjdk-17-jre-headless openssh-client perl python3 python3-venv ripgrep ruby sed shfmt sqlite3 tar
    tidy universal-ctags vim
)
missing=()
for package in "${debian[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# A virtual environment, so that nothing of the system's Python is changed.
if [ ! -x "$folder/python/bin/pytest" ]; then
    python3 -m venv "$folder/python"
    "$folder/python/bin/pip" install -q 'pip==23.2' black codespell mypy pre-commit pylint pytest ruff
fi

if command -v npm >/dev/null && [ ! -x "$folder/node_modules/.bin/eslint" ]; then
    npm install --silent --prefix "$folder" eslint >/dev/null
fi
if [ -x "$folder/node_modules/.bin/eslint" ]; then
    ln -sf "$folder/node_modules/.bin/eslint" "$folder/bin/eslint"
fi

echo "$folder/python/bin:$folder/bin"

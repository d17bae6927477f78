#!/bin/sh
# Makes the secrets that docker-compose.yml mounts, once; never overwrites one that exists.
# Usage: sh deploy/make-secrets.sh [FOLDER]      (default: deploy/secrets)
# The folder is for its owner alone. The files in it can be read by others, because a container
# reads its mounted secret as another user id than the owner's.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/secrets}

random_hex() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
random_base64() { head -c 32 /dev/urandom | base64 | tr -d '\n'; }
sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1; }

mkdir -p "$folder"
chmod 700 "$folder"
if [ -e "$folder/redis_url" ]; then
    echo "$folder already holds secrets; nothing was changed" >&2
    exit 0
fi

password=$(random_hex)
hash=$(printf %s "$password" | sha256)
sed -e "/^user gw\.agent-example /d" -e "/^user gateway /s/#0*/#$hash/" \
    "$here/users.acl.example" >"$folder/valkey_users"
random_base64 >"$folder/signing_key"
# An adapter's tokens come from its chat; without them its profile stays off.
for name in slack_app_token slack_bot_token discord_token; do : >>"$folder/$name"; done
printf 'redis://gateway:%s@valkey:6379/0' "$password" >"$folder/redis_url"
chmod 644 "$folder"/*
echo "wrote $folder"

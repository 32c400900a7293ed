#!/bin/sh
# provision.sh FROM TO: copies the project from the shared folder to the machine's own disk, and sets it up there.
# Nothing in TO is deleted, and a file that is newer there, because it was edited there, is kept. A shared folder of
# Windows has neither symbolic links nor modes: the one link is made again, and scripts are made executable.
set -eu

from=$1 to=$2
owner=$(stat -c %U "$(dirname "$to")")
group=$(stat -c %G "$(dirname "$to")")
install -d -o "$owner" -g "$group" "$to"
tar -C "$from" --owner="$owner" --group="$group" --anchored --exclude=./.git --exclude=./.venv --exclude=./.venv-ryu \
    --exclude=./.vagrant --exclude=./.types --exclude='./emu/*/build' --exclude=./build --exclude=./runs \
    --exclude=./captures --no-anchored --exclude=__pycache__ -cf - . |
    tar -C "$to" --keep-newer-files --warning=no-ignore-newer --no-same-permissions -xf -
install -d -o "$owner" -g "$group" "$to/.types"
ln -sfn .. "$to/.types/gradwire"
chmod a+x "$to/gradwire" "$to/tools/setup.sh" "$to"/emu/*/compile.sh
exec "$to/tools/setup.sh"

#!/bin/sh
# Appends the events of all runs to a file, a JSON line each: ./follow.sh FILE [FLAGS of `linesman events`]
#
# After a restart, or a kill at any moment, it continues after the last whole line, so that each event
# is in the file once. A line that a kill cut short gets the end "#torn", which no reader takes for JSON.
# The file may be renamed to FILE.1 and begun again while this program does not run, as logrotate does.
# Its sequences are of one stream: if EVENTS was created again meanwhile, give both files other names first.
set -eu
file=$1
shift

if [ -s "$file" ] && [ -n "$(tail -c 1 "$file")" ]; then
	echo '#torn' >>"$file"
fi
touch "$file"
last=$(cat "$file.1" "$file" 2>/dev/null | tail -n 1000 | grep -v '#torn$' |
	sed -n 's/^{"seq":\([0-9][0-9]*\),.*/\1/p' | tail -n 1)
exec linesman events --follow --json --from-seq "$((${last:-0} + 1))" "$@" >>"$file"

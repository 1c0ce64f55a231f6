#!/bin/sh
# Makes a fixture: what an older linesman leaves behind. Usage, from anywhere:
#
#	make.sh PATH-OF-THE-OLDER-linesman NAME
#
# Two runs have ended. A third one was at work as all processes were killed:
# its first half is in RAW, its second half and its end in the spool alone. A
# build that has a queue leaves a task in it, too.
set -eu
old=$1 name=$2
# What is in the environment, a run directory keeps: here it is nobody's.
test "${CLEAN:-}" || exec env -i CLEAN=1 PATH=/usr/bin:/bin HOME=/nonexistent "$0" "$@"
unset CLEAN
here=$(cd "$(dirname "$0")" && pwd)
lab=$(mktemp -d)
trap 'rm -rf "$lab"' EXIT
data=$lab/data
export LINESMAN_DATA_DIR=$data LINESMAN_NATS_LISTEN=127.0.0.1:0
if "$old" up --help | grep -q -- --http; then
	export LINESMAN_HTTP=127.0.0.1:0 LINESMAN_WORK_MAX_RUNS=0
fi
export LINESMAN_RAW_MAX_BYTES=64MiB LINESMAN_EVENTS_MAX_BYTES=64MiB LINESMAN_RUNS_MAX_BYTES=64MiB
corpus=$here/../corpus/codex
cd /

await() { # FILE PATTERN
	n=0
	until grep -q "$2" "$1" 2>/dev/null; do
		n=$((n + 1))
		test $n -lt 300 || { echo "$2 does not come" >&2; cat "$1" >&2; exit 1; }
		sleep 0.1
	done
}

"$old" up >"$lab/up" 2>"$lab/log" &
up=$!
await "$lab/up" '^ready'
"$old" pipe --run done --wait <"$corpus/shell-ok.jsonl" >"$lab/done"
"$old" pipe --run failed --wait <"$corpus/failed.jsonl" >"$lab/failed" || true
"$old" submit --json 'Say hi.' >"$lab/submitted" 2>/dev/null || true

half=$(($(wc -l <"$corpus/patch.jsonl") / 2))
head -n $half "$corpus/patch.jsonl" >"$lab/one"
tail -n +$((half + 1)) "$corpus/patch.jsonl" >"$lab/two"
"$old" run --run open -- sh -c "cat '$lab/one'; while ! test -e '$lab/gate'; do sleep 0.1; done; cat '$lab/two'" >"$lab/open" 2>&1 &
run=$!
await "$lab/open" 'turn started'
sleep 3 # for the records
"$old" events --json >"$lab/before.jsonl"
kill -9 $up
: >"$lab/gate"
n=0
until test -e "$data/runs/open/exit.json"; do
	n=$((n + 1))
	test $n -lt 300
	sleep 0.1
done
kill -9 $run
wait 2>/dev/null || true

cp "$lab/before.jsonl" "$data/before.jsonl"
"$old" version >"$data/made-by" 2>/dev/null || true
mkdir -p "$here/testdata"
tar -C "$data" --sort=name --owner=0 --group=0 --numeric-owner -czf "$here/testdata/$name.tar.gz" .
ls -l "$here/testdata/$name.tar.gz"

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
	for setting in LINESMAN_PUSH_ALLOW_PRIVATE=true LINESMAN_WORK_MAX_LIMIT=87600h; do
		env "$setting" "$old" status 2>&1 | grep -q 'no such setting' || export "${setting?}"
	done
fi
export LINESMAN_RAW_MAX_BYTES=64MiB LINESMAN_EVENTS_MAX_BYTES=64MiB LINESMAN_RUNS_MAX_BYTES=64MiB
corpus=$here/../../corpus/codex
cd /
unset OLDPWD

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

left=$data/left
mkdir "$left"
url=$(sed -n 's/.*"http": "\(.*\)".*/\1/p' "$data/linesman.json")
ask() { # PATH [BODY]
	test "$url" && curl -sSf -H @- ${2:+-d "$2"} "$url$1" <<-end 2>>"$lab/log"
		Authorization: Bearer $(cat "$data/token")
		Content-Type: application/json
		Accept: ${accept:-application/json}
		A2A-Version: 1.0
	end
}
submit() { # NAME [MEMBERS]: writes the request and its answer
	echo '{"task":"Say '"$1"'.","workingDir":"/","idempotency_key":"of-the-older-'"$1"'"'"${2:-}"'}' >"$left/$1.request"
	accept=application/adcp+json ask /v1/runs "$(cat "$left/$1.request")" >"$left/$1.answer"
}
ask /v1/openapi.json >"$lab/rest" || true
if grep -q idempotency_key "$lab/rest"; then
	submit once
fi
if grep -q push_notification_config "$lab/rest"; then
	hook=',"push_notification_config":{"url":"http://127.0.0.1:59999/","operation_id":"upgrade","authentication":{"schemes":["Bearer"],"credentials":"who-reads-this-may-know-it-it-opens-nothing"}}'
	submit later "$hook"
	submit gone "$hook"
	ask "/v1/runs/$(sed 's/.*"task_id":"\([^"]*\)".*/\1/' "$left/gone.answer")/cancel" '{}' >"$lab/cancelled"
	await "$data/jetstream/jetstream/LINESMAN/streams/LINESMAN_PUSH/msgs/1.blk" whk_
fi
if "$old" run --help | grep -q -- --resume; then
	"$old" run --run asks -- sh -c 'exit 42' >"$lab/asks" 2>&1 || test $? = 42
	"$old" run --resume asks -- sh -c 'exit 42' >"$lab/asks" 2>&1 || test $? = 42
fi
if "$old" bridge --help 2>/dev/null | grep -q -- --external; then
	mkdir "$lab/bridge"
	for id in answered waits; do
		echo '{"request_id":"'$id'","prompt":"Which one?","timeout_seconds":300000000}' >"$lab/bridge/.agent-request-$id.json"
	done
	"$old" bridge --external --dir "$lab/bridge" --max-timeout 87600h >"$lab/bridge/log" 2>&1 &
	bridge=$!
	await "$lab/bridge/log" '"waits"'
	await "$lab/bridge/log" '"answered"'
	n=0
	until "$old" bridge answer answered 'The second one.' 2>>"$lab/log"; do
		n=$((n + 1))
		test $n -lt 50
		sleep 0.1
	done
	await "$lab/bridge/.agent-response-answered.json" second
fi

half=$(($(wc -l <"$corpus/patch.jsonl") / 2))
head -n $half "$corpus/patch.jsonl" >"$lab/one"
tail -n +$((half + 1)) "$corpus/patch.jsonl" >"$lab/two"
"$old" run --run open -- sh -c "cat '$lab/one'; while ! test -e '$lab/gate'; do sleep 0.1; done; cat '$lab/two'" >"$lab/open" 2>&1 &
run=$!
await "$lab/open" 'turn started'
sleep 3 # for the records
"$old" events --json >"$lab/before.jsonl"
if test "${bridge:-}"; then
	"$old" bridge list --json >"$left/waiting" 2>>"$lab/log" || "$old" bridge waiting --json >"$left/waiting"
fi
ask '/v1/runs?limit=100' >"$left/runs" || rm "$left/runs"
ask "/a2a/v1/tasks?contextId=$(sed -n 's/.*"thread_id":"\([^"]*\)".*/\1/p' "$corpus/shell-ok.jsonl")" >"$left/context" || rm "$left/context"
kill -9 $up ${bridge:-}
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

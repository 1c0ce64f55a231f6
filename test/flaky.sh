#!/usr/bin/env bash
# Runs the tests of packages, with the race detector, $1 times in each of three
# ways: as they are, beside four busy loops, and on one processor. Each time is
# a process of its own. Prints package, way, times, times that failed, seconds,
# and the tests that failed; keeps what failed in the directory it names.
# `make flaky` calls it.
set -uo pipefail
times=$1 failed=0
shift
kept=$(mktemp -d)
loops=()
calm() {
	for loop in "${loops[@]}"; do kill "$loop" && wait "$loop"; done 2>/dev/null
	loops=()
}
trap calm EXIT

echo "what failed is kept in $kept"
for dir in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' "$@"); do
	name=${dir#"$PWD"/}
	test=$kept/${name//\//-}
	go test -race -c -o "$test.test" "$dir" || exit 1
	for way in plain busy one; do
		processors=() bad=0 began=$SECONDS
		case $way in
		busy) for _ in 1 2 3 4; do (while :; do :; done) & loops+=($!); done ;;
		one) processors=(GOMAXPROCS=1) ;;
		esac
		for ((i = 1; i <= times; i++)); do
			if ! (cd "$dir" && env "${processors[@]}" "$test.test" -test.v -test.timeout 20m -test.parallel 4) >"$kept/said" 2>&1; then
				bad=$((bad + 1)) failed=1
				mv "$kept/said" "$test.$way.$i"
			fi
		done
		calm
		tests=$(cat "$test.$way".* 2>/dev/null | sed -nE 's/^--- FAIL: ([^ ]+).*/\1/p; s/^(panic|fatal error):.*/\1/p; s/^WARNING: (DATA RACE)/\1/p' | sort | uniq -c | tr -s ' \n' ' ')
		printf '%-24s %-5s %3d %3d %5d %s\n' "$name" "$way" "$times" "$bad" $((SECONDS - began)) "$tests"
	done
	rm -f "$test.test" "$kept/said"
done
exit $failed

#!/usr/bin/env bash
# Runs every fuzz target in spans of $1 until a span finds no new coverage, in
# at most $2 spans, and prints what each span found. `make fuzz` calls it.
# PKGS and TARGETS (a regexp) in the environment choose some.
set -uo pipefail
span=$1 most=$2 failed=0
for pkg in ${PKGS:-$(go list ./...)}; do
	for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' | grep -E "${TARGETS:-.}"); do
		n=0 found='' total='?' dry=0
		while ((n < most && !dry)); do
			# Go spends up to a minute on making one interesting input smaller,
			# during which nothing else is tried: ten attempts are enough here.
			# And a span that ends in the middle of a try may be told as a failure.
			if ! said=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$span" -fuzzminimizetime 10x "$pkg" 2>&1) &&
				[[ $said != *"context deadline exceeded"* || $said == *"Failing input"* ]]; then
				echo "$said"
				failed=1
				break
			fi
			n=$((n + 1))
			# fuzz: elapsed: 20s, execs: 81 (4/sec), new interesting: 3 (total: 9)
			if [[ $said =~ .*new\ interesting:\ ([0-9]+)\ \(total:\ ([0-9]+)\) ]]; then
				found+=" ${BASH_REMATCH[1]}" total=${BASH_REMATCH[2]}
				((BASH_REMATCH[1] == 0)) && dry=1
			else
				found+=" -" # the corpus itself took all of the span
			fi
		done
		echo "$pkg $target: found$found, $total in all"
	done
done
exit $failed

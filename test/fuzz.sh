#!/usr/bin/env bash
# Runs every fuzz target in spans of $1, at most $2 of them, until no new
# statement of the project was reached in three spans, or one found no input
# that is new in any way. Prints what each span found: statements reached by
# then, and after it the inputs that Go took for new. `make fuzz` calls it.
# PKGS and TARGETS (a regexp) in the environment choose some.
set -uo pipefail
span=$1 most=$2 failed=0
cache=$(go env GOCACHE)/fuzz
scratch=$(mktemp -d)
borrowed= # the corpus that Go has found, beside the one of the project
giveBack() {
	if [[ -n $borrowed ]]; then
		rm -f "$borrowed"/found-*
		rmdir -p --ignore-fail-on-non-empty "$borrowed" 2>/dev/null
	fi
	borrowed=
}
trap 'giveBack; rm -rf "$scratch"' EXIT

# reached prints how many statements the corpus of a target reaches.
reached() {
	local pkg=$1 target=$2 found=$cache/$1/$2
	borrowed=$(go list -f '{{.Dir}}' "$pkg")/testdata/fuzz/$target
	mkdir -p "$borrowed"
	[[ -d $found ]] && find "$found" -type f -printf "%p\0%f\0" | while IFS= read -r -d '' path && IFS= read -r -d '' name; do
		cp "$path" "$borrowed/found-$name"
	done
	go test -run "^$target\$" -coverpkg=./... -coverprofile="$scratch/cover" "$pkg" >"$scratch/said" 2>&1 || cat "$scratch/said" >&2
	giveBack
	awk 'NR > 1 && $3 > 0 { n += $2 } END { print n + 0 }' "$scratch/cover"
}

for pkg in $(go list ${PKGS:-./...}); do
	for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' | grep -E "${TARGETS:-.}"); do
		statements=$(reached "$pkg" "$target") n=0 same=0 total='?' found=''
		first=$statements
		while ((n < most && same < 3)); do
			# Go spends up to a minute on making one interesting input smaller,
			# during which nothing else is tried: ten attempts are enough here.
			# And a span that ends in the middle of a try may be told as a failure.
			if ! said=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$span" -fuzzminimizetime 10x "$pkg" 2>&1) &&
				[[ $said != *"context deadline exceeded"* || $said == *"Failing input"* ]]; then
				echo "$said"
				failed=1
				break
			fi
			n=$((n + 1)) new=-
			# fuzz: elapsed: 20s, execs: 81 (4/sec), new interesting: 3 (total: 9)
			if [[ $said =~ .*new\ interesting:\ ([0-9]+)\ \(total:\ ([0-9]+)\) ]]; then
				new=${BASH_REMATCH[1]} total=${BASH_REMATCH[2]}
			fi # else the corpus itself took all of the span
			now=$statements
			[[ $new == 0 ]] || now=$(reached "$pkg" "$target")
			same=$((now > statements ? 0 : same + 1)) statements=$((now > statements ? now : statements))
			found+=" $statements+$new"
			[[ $new == 0 ]] && break
		done
		dry='NOT DRY'
		[[ $new == 0 ]] || ((same >= 3)) && dry=dry
		echo "$pkg $target: $first statements, then$found; inputs: $total; $dry"
	done
done
exit $failed

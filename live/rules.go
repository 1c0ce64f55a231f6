package live

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/linesman/linesman/agent/acp"
)

// ruled returns what the rules do about a question; "": none is about it.
func (p *Policy) ruled(q *Question) string {
	do, narrow := p.first(p.Rules, q), p.first(p.Narrows, q)
	if narrow == "" || do == "deny" {
		return do
	}
	return narrow
}

// first returns what the first rule that matches does; "": none does.
func (p *Policy) first(rules []acp.Rule, q *Question) string {
	if q.Kind == acp.Form {
		return ""
	}
	least := ""
	for _, r := range rules {
		if matches(&r, q, p.Dirs) {
			if r.Do == "allow" {
				return cmp.Or(least, r.Do)
			}
			return r.Do
		}
		if r.Do == "allow" {
			continue
		}
		if q.hides() {
			r.Command = nil // it may have these words
		}
		if q.untold() || q.tellsNothing() || q.covers(r.In) {
			r.In = "" // it may be there
		}
		if q.Kindless {
			r.Tool = "*" // it may be that
		}
		if matches(&r, q, p.Dirs) {
			least = "ask"
		}
	}
	return least
}

// hides reports whether the question is about a command that no rule can read.
func (q *Question) hides() bool {
	return q.Command == "" && (q.Unread || q.Kindless || q.Tool == "execute")
}

// untold reports whether the question is about a file that it does not tell.
func (q *Question) untold() bool {
	return q.Bare || len(q.Paths) == 0 && slices.Contains([]string{"read", "search", "edit", "delete", "move"}, q.Tool)
}

// tellsNothing reports whether the question may be about any file, as it tells neither what its tool does nor a file.
func (q *Question) tellsNothing() bool { return q.Kindless && len(q.Paths) == 0 && q.Command == "" }

// covers reports whether the question is about all that is in a directory above dir.
func (q *Question) covers(dir string) bool {
	return slices.Contains([]string{"search", "delete", "move", ""}, q.Tool) &&
		slices.ContainsFunc(q.Paths, func(p string) bool { return below(strings.ToLower(dir), strings.ToLower(p)) })
}

// matches reports whether a rule is about a question of a run in some directories. One that allows is not if something
// is not known.
func matches(r *acp.Rule, q *Question, dirs []string) bool {
	if r.Tool != "*" && r.Tool != cmp.Or(q.Tool, "other") {
		return false
	}
	if r.Do != "allow" {
		return (len(r.Command) == 0 || has(q.Command, r.Command)) &&
			(r.In == "" || q.Unknown || slices.ContainsFunc(q.Paths, func(p string) bool {
				return below(strings.ToLower(p), strings.ToLower(r.In))
			}))
	}
	if r.In != "" {
		dirs = []string{r.In}
	}
	told := len(q.Paths) > 0 || r.In == ""
	return told && !q.untold() && q.inside(dirs) && (len(r.Command) == 0 || is(q.Command, r.Command))
}

// inside reports whether no file of the question is outside of all directories.
func (q *Question) inside(dirs []string) bool {
	return !q.Unknown && !slices.ContainsFunc(q.Paths, func(p string) bool {
		return !slices.ContainsFunc(dirs, func(dir string) bool { return below(p, dir) })
	})
}

// below reports whether a path is that of a directory, or of what is in it.
func below(p, dir string) bool {
	p, dir = path.Clean(p), path.Clean(dir)
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// interpreted are the characters that make a command more than its words.
const interpreted = ";&|<>$(){}`'\"\\\n\r"

// is reports whether a command has only these words. Of the pattern, * is any word, and ... at the end any number of
// them.
func is(command string, pattern []string) bool {
	if strings.ContainsAny(command, interpreted+"*?[~") { // a word may become several
		return false
	}
	words := strings.Fields(command)
	if len(words) == 0 || strings.Contains(words[0], "=") { // an assignment
		return false
	}
	if last := len(pattern) - 1; pattern[last] == "..." {
		pattern = pattern[:last]
		words = words[:min(len(words), last)]
	}
	return slices.EqualFunc(words, pattern, sameWord)
}

// has reports whether a command, or a part of it, has these words one after the other.
func has(command string, pattern []string) bool {
	words := strings.FieldsFunc(command, func(c rune) bool { return c <= ' ' || strings.ContainsRune(interpreted, c) })
	pattern = slices.DeleteFunc(slices.Clone(pattern), func(word string) bool { return word == "..." })
	for i := range len(words) - len(pattern) + 1 {
		if slices.EqualFunc(words[i:i+len(pattern)], pattern, sameWord) {
			return true
		}
	}
	return false
}

func sameWord(word, pattern string) bool { return pattern == "*" || word == pattern }

package httpserver

import (
	"html"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// front answers a program that requests "/" without a token: the paths of this
// server. It has no scripts, no styles, and no information that is not in the
// documentation.
func (s *Server) front(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", defaultHeaders["Content-Security-Policy"]+
		"; base-uri 'none'; form-action 'none'")
	var b strings.Builder
	b.WriteString(`<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>linesman</title></head>
<body>
<h1>linesman</h1>
<p>This server runs coding agents and answers questions about their runs. A browser gets its page at this address.</p>
<p>Without a token:</p>
<ul>
`)
	listPaths(&b, append([]string{"/healthz", "/readyz", "/session", "/signin"}, s.openPaths...))
	b.WriteString(`</ul>
<p>With the header <code>Authorization: Bearer TOKEN</code>:</p>
<ul>
`)
	listPaths(&b, slices.Collect(maps.Keys(s.needs)))
	b.WriteString(`</ul>
<p>The token is in the file <code>token</code> in the data directory of linesman. <code>linesman token create</code> makes
further tokens.</p>
</body>
</html>
`)
	_, _ = w.Write([]byte(b.String()))
}

// expired answers a browser whose link does not sign in.
func expired(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusForbidden)
	_, _ = io.WriteString(w, `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><title>linesman</title></head>
<body>
<h1>This link does not sign in</h1>
<p>It was used before, or is older than ten minutes. <code>linesman page</code> prints a new one.</p>
<p><a href="/">Sign in with a token</a></p>
</body>
</html>
`)
}

// listPaths writes the paths of patterns as list items, each as a user types
// it: without the method and the wildcards of [http.ServeMux].
func listPaths(b *strings.Builder, patterns []string) {
	var paths []string
	marks := strings.NewReplacer("/{$}", "", "...}", "}")
	for _, p := range patterns {
		paths = append(paths, marks.Replace(p[strings.Index(p, "/"):]))
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		b.WriteString("<li><code>" + html.EscapeString(path) + "</code></li>\n")
	}
}
